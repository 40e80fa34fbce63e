"""Recognises what a folder without shards is, by the names of its files: another library's data set, or recordings.

The result says what to do about it, for the error message. Beside tars, it recognises files with texts that no
WebDataset reader reads, for a warning. Nothing is opened: `headrace.locate` lists the folder.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

GUIDE = "docs/migrating.md"
_REWRITE = f"write its samples to tars once, or build shards from the recordings: {GUIDE} shows both"
_BUILD = "build shards from the recordings: source.uri of datasets/NAME.yaml names them, build.py NAME builds"
_WITH_TABLE = f"{_BUILD}; {GUIDE} shows how its texts come along"


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """Description of a folder without shards.

    Attributes:
        what: a few words, with the name that shows it: "a Lance data set (x.lance/_versions/1.manifest)".
        way_out: what to do.
        has_recordings: whether it may be the source of a build.
    """

    what: str
    way_out: str
    has_recordings: bool = False


@dataclass(frozen=True, slots=True)
class _Marker:
    """A format, and how it is recognised: a pattern of paths, or a key in its `index.json`."""

    what: str
    pattern: str
    way_out: str = _REWRITE
    index_key: str = ""


_OUTPUT = _Marker("an output of Headrace without a snapshot", r"^catalog/catalog\.", "build it: build.py NAME")
_RECORDINGS = _Marker(
    "a folder of recordings",
    r"(?i)\.(wav|wave|flac|mp3|m4a|aac|ogg|oga|opus|aiff?|caf|au|w64|wma|webm)$",
    f"{_BUILD} (README.md: Make your own)",
)
# The first match counts. dataset_info.json is not a marker, because TFDS writes it as well.
_MARKERS = (
    _Marker("a LitData data set", r"(^|/)chunk-\d+-\d+(\.\w+)*\.bin$", index_key="chunks"),
    _Marker("an MDS data set of MosaicML Streaming", r"\.mds(\.\w+)?$", index_key="shards"),
    _Marker("a Lance data set", r"\.lance(/|$)|(^|/)_versions/"),
    _Marker("a Zarr store", r"\.zarr/|(^|/)(\.zarray|\.zgroup|\.zattrs|\.zmetadata|zarr\.json)$"),
    _Marker("a data set of ArrayRecord files", r"\.array_?record(-\d+-of-\d+)?$"),
    _Marker("a data set of TFRecord files", r"\.tfrec(ords?)?(\.gz)?(-\d+-of-\d+)?$"),
    _Marker("a data set of Arrow files, as Hugging Face datasets writes them", r"\.arrow$|(^|/)dataset_dict\.json$"),
    _Marker("a data set of HDF5 files", r"\.(h5|hdf5)$"),
    _Marker(
        "a folder of Lhotse manifests",
        r"(^|/)(cuts|recordings|supervisions)\b[^/]*\.jsonl(\.gz)?$",
        f"name the folder of its tars, or build shards from the recordings: {GUIDE} shows both",
    ),
    _Marker("a Kaldi directory", r"(^|/)wav\.scp$", _WITH_TABLE),
    _Marker("a folder with a NeMo manifest", r"(^|/)[\w-]*manifest[\w-]*\.jsonl?$", _WITH_TABLE),
    _RECORDINGS,
    _Marker("a data set of Parquet files", r"\.parquet$"),
    _Marker("a data set of NumPy or PyTorch files", r"\.(npz|npy|pt|pth)$"),
    _Marker(
        "a folder of archives of another kind",
        r"(?i)\.(zip|7z|rar|tar\.(bz2|xz|lzma)|tbz2?|txz)$",
        "unpack them; packed tars may be .tar.gz, .tgz or .tar.zst",
    ),
)
_INDEX = re.compile(r"([^/]+/)?index\.json")
_INDEX_KEY = re.compile(rb'"(chunks|shards)"\s*:')
_TAR = re.compile(r"(?i)(.+)/[^/]+\.(?:tar|tgz|tar\.gz|tar\.zst)")


def recognised(paths: Sequence[str], index_json: bytes = b"") -> OtherFormat | None:
    """Recognise the format of a folder without shards; None if no name in it is known.

    Args:
        paths: relative paths of the files below it, or of the first thousand; hidden files included.
        index_json: the first bytes of its `index_path`, if it has one.

    >>> recognised(["README.md", "data/train-00000-of-00002.parquet"]).what
    'a data set of Parquet files (data/train-00000-of-00002.parquet)'
    """
    if (name := _first(_OUTPUT, paths)) is not None:
        return OtherFormat(f"{_OUTPUT.what} ({name})", _OUTPUT.way_out)
    if (below := _tars_below(paths)) is not None:
        return below
    key = found[1].decode() if (found := _INDEX_KEY.search(index_json)) else None
    for marker in _MARKERS:
        name = index_path(paths) if marker.index_key == key else _first(marker, paths)
        if name is not None:
            return OtherFormat(f"{marker.what} ({name})", marker.way_out, marker is _RECORDINGS)
    return None


def index_path(paths: Iterable[str]) -> str | None:
    """Path of the `index.json` of a folder, or else of a folder in it, which several formats have; None without one."""
    return min((path for path in paths if _INDEX.fullmatch(path)), key=lambda path: path.count("/"), default=None)


def _first(marker: _Marker, paths: Iterable[str]) -> str | None:
    return next((path for path in paths if re.search(marker.pattern, path)), None)


def _tars_below(paths: Iterable[str]) -> OtherFormat | None:
    """A folder without tars that holds folders of tars; None for other folders."""
    tars = [(path, found[1]) for path in paths if (found := _TAR.fullmatch(path))]
    if not tars:
        return None
    folders = list(dict.fromkeys(folder for _, folder in tars))
    shown = ", ".join(folders[:3]) + (f" and {len(folders) - 3} more" if len(folders) > 3 else "")
    stars = "*/" * (folders[0].count("/") + 1)
    return OtherFormat(
        f"a folder of folders of tars ({tars[0][0]})",
        f"name the one that is meant ({shown}), or the tars of all by a glob: {stars}*.tar below it",
    )


_SHAR_TAR = re.compile(r"\w+\.(\d{6})\.tar(\.gz)?")
_NEMO_TAR = re.compile(r"audio_\d+\.tar")
_SHAR_TEXTS = re.compile(r"cuts\.\d+\.jsonl(\.gz)?")
_NEMO_TEXTS = re.compile(r"tarred_audio_manifest\.jsonl?|manifest_\d+\.jsonl?")


def may_be_texts(path: str) -> bool:
    """Whether `texts_beside` may recognise a file; a fast test for listings of many files."""
    return path.endswith((".jsonl.gz", ".jsonl", ".json"))


def possible_texts(tar: str) -> Iterator[str]:
    """Paths of files that may hold the texts of a tar's recordings: of tars named as by Lhotse Shar or NeMo."""
    folder, slash, name = tar.rpartition("/")
    if found := _SHAR_TAR.fullmatch(name):
        yield from (f"{folder}{slash}cuts.{found[1]}.{kind}" for kind in ("jsonl.gz", "jsonl"))
    if _NEMO_TAR.fullmatch(name):
        yield from (f"{folder}{slash}tarred_audio_manifest.{kind}" for kind in ("json", "jsonl"))


def texts_beside(paths: Iterable[str]) -> str | None:
    """The warning about files beside tars that hold texts; None if no file is known to hold texts.

    >>> texts_beside(["sizes.json", "tarred_audio_manifest.json"])[:64]
    "tarred_audio_manifest.json holds the manifest of NeMo's tars: th"
    """
    for path in paths:
        name = path.rpartition("/")[2]
        is_shar = _SHAR_TEXTS.fullmatch(name) is not None
        if is_shar or _NEMO_TEXTS.fullmatch(name):
            whose = "the cuts of a Lhotse Shar folder" if is_shar else "the manifest of NeMo's tars"
            alone = ", and name the tars of one field alone (recording.*.tar)" if is_shar else ""
            return (
                f"{path} holds {whose}: the texts in it are not read, and samples come without them. Join them to the "
                f"samples by key in a transform{alone}: {GUIDE} shows how"
            )
    return None
