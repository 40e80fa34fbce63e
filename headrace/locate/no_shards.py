"""Errors for names that lead to no shards, no snapshots or no samples: what is there instead, and what to do.

Every loader and command raises these, so that one mistake is one error. A folder that holds shards is not looked into;
which file names belong to which other library is known by `headrace.format.other_formats`.
"""

import contextlib
from itertools import islice
from pathlib import Path

from headrace.errors import ConfigError, FormatError, NoShardsError, StorageError
from headrace.format.other_formats import index_path, recognised
from headrace.format.tars.tar_names import TAR_SUFFIXES
from headrace.locate.listing import has_snapshots, is_web, way_out
from headrace.locate.names import is_pattern
from headrace.stores.regular_files import oddity
from headrace.stores.storage import LocalStorage, Storage, Transfer, open_storage

_LISTED = 1000  # names that show what a folder is
_HEAD_BYTES = 4096
_SHOWN = 5


def no_shards(named: str, storage: Storage) -> NoShardsError:
    """The error for a name that leads to no shards: what is there instead, and what to do.

    Args:
        named: the name that the user gave.
        storage: its folder.
    """
    if (fault := _no_folder(storage)) is not None:
        return NoShardsError(f"{named}: {fault}")
    if is_pattern(named):
        return NoShardsError(f"{named}: no tars match; {_instead(storage, storage.uri)}")
    if has_manifests(storage):
        return NoShardsError(f"{named}: no snapshot there{not_built(storage)}")
    kinds = ", ".join(TAR_SUFFIXES)
    return NoShardsError(f"{named}: no snapshot and no shards ({kinds}) there; {_instead(storage, 'it')}")


def has_manifests(storage: Storage) -> bool:
    """Whether a build has written some partitions of a shard folder."""
    return next(iter(storage.list("manifests/")), None) is not None


def not_built(storage: Storage) -> str:
    """The end of an error for a part of an output without a snapshot, if a build has begun it; else empty."""
    if not has_manifests(storage):
        return ""
    return " yet, since no build of it has finished: build the data set again, and see what it reports"


def no_audio(named: str, latents: list[Storage]) -> NoShardsError:
    """The error for an output that holds latents only, where one folder of shards is needed."""
    folders = ", ".join(folder.uri for folder in latents)
    return NoShardsError(f"{named}: an output without audio: name one of its folders of latents ({folders})")


def no_snapshots(named: str, wanted: str, folder: Storage | None = None) -> ConfigError:
    """The error for tars where a folder with snapshots is needed.

    Args:
        named: the name that the user gave.
        wanted: what needs snapshots: "snapshot=3".
        folder: the folder of snapshots that the tars are in; None for a plain WebDataset.
    """
    if folder is not None:
        return ConfigError(f"{named}: {wanted} needs a folder with snapshots: name {folder.uri} itself")
    return ConfigError(
        f"{named}: {wanted} needs snapshots, and this is a plain WebDataset; outputs of Headrace have them. Of other "
        "tars, `headrace index --columns` makes columns, which StreamingDataset and `headrace view` read"
    )


def parts_beside(place: str, transfer: Transfer | None) -> str:
    """The end of an error for a part of an output that is not there, such as a view: the parts that there are.

    Args:
        place: where it would be: `OUTPUT/views/NAME`.
        transfer: time limits of the store.
    """
    family, _, own = place.rstrip("/").rpartition("/")
    parts = set[str]()
    with contextlib.suppress(StorageError):  # a web server lists nothing
        parts = {entry.path.partition("/")[0] for entry in open_storage(family, transfer).list() if "/" in entry.path}
    if not parts:
        return f"; {family} is empty: build it first"
    others = sorted(parts - {own})
    return f"; there are {', '.join(others)}" if others else ""


def no_samples(first: str, num_shards: int) -> FormatError:
    """The error for shards of which none holds a sample; `first` is the name of one of them."""
    which = "this shard" if num_shards == 1 else f"any of {num_shards} shards (this is the first)"
    return FormatError(
        f"{first}: no sample in {which}: a sample is neighbouring files KEY.flac, KEY.json, …; check how the tars were "
        "written"
    )


def _no_folder(storage: Storage) -> str | None:
    """Describe what is in the place of a local folder; None where it is a folder, and for other stores."""
    if not isinstance(storage, LocalStorage) or storage.root.is_dir():
        return None
    root = storage.root
    if (odd := oddity(root)) is not None:
        return f"it is {odd}; name a folder of tars"
    if root.is_file():
        return f"it is a file, and neither a tar nor a sizes.json{_file_of(root.name)}"
    beside = root.parent / "audio"
    other = f"; did you mean {beside}, with split=…?" if beside.is_dir() else ""
    return f"the folder {root} is not there (relative names start at {Path.cwd()}){other}"


def _file_of(name: str) -> str:
    """Which kind of data set a single file would be part of, and what to do; empty where its name is not known."""
    found = recognised([name])
    return "" if found is None else f"; a folder of such files is {found.what.rpartition(' (')[0]}: {found.way_out}"


def _instead(storage: Storage, called: str) -> str:
    """Describe a folder without shards, and say what to do; `called` names the folder in the sentence."""
    audio = storage.at("audio")
    if has_snapshots(audio) or (isinstance(audio, LocalStorage) and audio.root.is_dir()):
        return f"name its folder of shards: {audio.uri}"
    if is_web(storage):
        return way_out(storage)
    paths = _some_paths(storage)
    if (found := recognised(paths, _head(storage, index_path(paths)))) is not None:
        return f"{called} is {found.what}: {found.way_out}"
    names = list(dict.fromkeys(path.partition("/")[0] for path in paths if path[0] != "."))
    if not names:
        return f"{called} is empty: build the data set, or check the path"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{called} holds {', '.join(names[:_SHOWN])}{more}: build the data set, or check the path"


def _some_paths(storage: Storage) -> list[str]:
    """The first paths below a folder, and of a local one its hidden names, which stores never list."""
    hidden = []
    if isinstance(storage, LocalStorage):
        hidden = [entry.name for entry in islice(storage.root.iterdir(), _LISTED) if entry.name[0] == "."]
    return [*(entry.path for entry in islice(storage.list(), _LISTED)), *sorted(hidden)]


def _head(storage: Storage, path: str | None) -> bytes:
    """The first bytes of a file; empty where there is no such file, or it cannot be read."""
    if path is None:
        return b""
    try:
        with storage.open(path) as file:
            return file.read(_HEAD_BYTES)
    except StorageError:
        return b""
