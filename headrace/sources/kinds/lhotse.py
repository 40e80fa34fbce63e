"""`kind: lhotse`: manifests of Lhotse: recordings with supervisions, cuts, or Shar.

What a file holds follows from its first object. Where there are cuts, recordings and supervisions beside them are not
read: a cut has its own. The rows are made by `headrace.sources.kinds.lhotse_rows`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from headrace.config.section import Section
from headrace.errors import ConfigError
from headrace.source_kinds import SourceKind
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.lhotse_rows import Supervisions, cut_rows, recording_rows
from headrace.sources.kinds.lhotse_values import check_values
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import base_of, files_of, folder_of, is_url, joined, relative, root_of, stamp_of_file
from headrace.sources.tar_places import member_item, place_in_tar, tar_fault, tar_members
from headrace.sources.text_tables import json_lines

_EXTENSIONS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_SHAR = re.compile(r"cuts(\.[^.]+)?\.jsonl(\.gz|\.zst)?")


class LhotseOptions(Section):
    """The options of `kind: lhotse`.

    Attributes:
        supervisions: what supervisions are: each a row, or a column of the row of their cut or recording; None for
            columns of cuts and for rows of recordings.
    """

    supervisions: Supervisions | None = None


class _Named(NamedTuple):
    """A recording that a manifest names: its path in the listing, the file or tar, or why it cannot be used."""

    path: str
    file: str = ""
    member: str = ""
    fault: str = ""


@dataclass(frozen=True)
class LhotseItems:
    """The recordings and rows of manifests.

    Attributes:
        files: the manifests, in order.
        root: the folder to which paths in the listing are relative.
        options: see `LhotseOptions`.
    """

    files: tuple[str, ...]
    root: str
    options: LhotseOptions

    def items(self) -> Iterator[Item]:
        """See `Items.items`. Of Shar, every tar of recordings is listed whole."""
        tars = dict.fromkeys(tar for file in self._forms.get("cuts", ()) if (tar := _shar_tar(file)))
        for _, named in self._recordings():
            if named.fault or not named.member:
                yield Item(named.path, named.file, fault=named.fault)
        for tar in tars:
            yield from self._members(tar)

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`."""
        file = joined(self.root, path)
        return Place(file) if stamp_of_file(file) is not None else place_in_tar(self.root, path, stamp)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`."""
        if "cuts" in self._forms:
            form = self.options.supervisions or Supervisions.COLUMNS
            for cut, named in self._recordings():
                yield from cut_rows(cut, named.path, form)
            return
        recordings = {recording["id"]: (recording, named.path) for recording, named in self._recordings()}
        form = self.options.supervisions or Supervisions.ROWS
        if form is Supervisions.ROWS and "supervisions" not in self._forms:
            raise ConfigError(
                f"source.uri: {', '.join(self.files)}: recordings of Lhotse without supervisions, which would be the "
                "samples; source.options: {supervisions: columns} makes each recording one"
            )
        supervisions = [content for _, content in self._objects("supervisions")]
        yield from recording_rows(recordings, supervisions, form)

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.files

    @cached_property
    def _forms(self) -> dict[str, list[str]]:
        """Form → the files of this form."""
        found: dict[str, list[str]] = {}
        for file in self.files:
            first = next((content for _, content in json_lines(file)), None)
            if first is not None:
                found.setdefault(_form_of(first, file), []).append(file)
        if not found.keys() & {"cuts", "recordings"}:
            raise ConfigError(f"source.uri: {', '.join(self.files)}: there are neither recordings nor cuts of Lhotse")
        return found

    def _objects(self, form: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The file of each object of a form, and the object. Raises `ConfigError`: see `check_values`."""
        for file in self._forms.get(form, ()):
            for line, content in json_lines(file):
                check_values(content, f"{file}, line {line}")
                yield file, content

    def _recordings(self) -> Iterator[tuple[dict[str, Any], _Named]]:
        """Each cut, or each recording if there are no cuts, and what it names."""
        if "cuts" not in self._forms:
            for file, recording in self._objects("recordings"):
                yield recording, self._named(file, recording, recording["id"])
            return
        last, tar, members = "", "", dict[str, str]()
        for file, cut in self._objects("cuts"):
            if file != last:
                last, tar = file, _shar_tar(file)
                members = {} if not tar or tar_fault(tar) else _audio_members(tar)
            named = (
                self._in_shar(tar, members, cut["id"]) if tar else self._named(file, cut.get("recording"), cut["id"])
            )
            yield cut, named

    def _named(self, file: str, recording: object, name: str) -> _Named:
        """The file of a recording; `name` is the id of it, or of its cut."""
        path, fault = _source(recording)
        if fault:
            return _Named(f"{relative(self.root, file)}#{name}", fault=f"{name} of {file}: {fault}")
        place = joined(self._base(folder_of(file), path), path)
        return _Named(relative(self.root, place), place)

    def _base(self, folder: str, path: str) -> str:
        """The folder to which relative paths of a manifest belong: that of the first path that is found."""
        if folder not in self._bases and not is_url(path) and not path.startswith("/"):
            found = base_of(folder, path)
            if found is None:
                return folder
            self._bases[folder] = found
        return self._bases.get(folder, folder)

    @cached_property
    def _bases(self) -> dict[str, str]:
        return {}

    def _in_shar(self, tar: str, members: Mapping[str, str], cut: str) -> _Named:
        """The recording of a cut, given the members with audio of its tar (`_audio_members`)."""
        path = relative(self.root, tar)
        if member := members.get(cut, ""):
            return _Named(f"{path}/{member}", tar, member)
        return _Named(f"{path}#{cut}", fault=f"cut {cut}: there is no audio of it in {tar}")

    def _members(self, tar: str) -> Iterator[Item]:
        path = relative(self.root, tar)
        if fault := tar_fault(tar):
            yield Item(path, fault=fault)
            return
        members = tar_members(tar)
        yield from (member_item(path, tar, members[name]) for name in _audio_members(tar).values())


def _form_of(content: Mapping[str, Any], file: str) -> str:
    """The form of a manifest, from its first object."""
    if "sources" in content and "sampling_rate" in content:
        return "recordings"
    if "recording_id" in content and "type" not in content:
        return "supervisions"
    if str(content.get("type", "")).endswith("Cut") or "supervisions" in content:
        return "cuts"
    raise ConfigError(f"{file}: neither recordings, supervisions nor cuts of Lhotse; its keys are {', '.join(content)}")


def _source(recording: object) -> tuple[str, str]:
    """The file of a recording, or why it cannot be read."""
    if not isinstance(recording, Mapping):
        return "", "it has no recording"
    if recording.get("transforms"):
        return "", "its recording has transforms, which are not applied; write the sound to a file"
    sources = recording.get("sources")
    if not (isinstance(sources, list) and len(sources) == 1 and isinstance(sources[0], Mapping)):
        return "", "expected one source; write the channels into one file"
    kind, source = sources[0].get("type"), sources[0].get("source")
    is_named = kind == "file" or (kind == "url" and str(source).startswith(("s3://", "gs://", "az://")))
    if not is_named or not isinstance(source, str) or not source:
        return "", f"its source is of type {kind!r}, and only files are read; commands are not run"
    return source, ""


def _shar_tar(file: str) -> str:
    """The tar of recordings beside a file of cuts; empty without one: then it is no Shar."""
    match = _SHAR.fullmatch(file.rpartition("/")[2])
    tar = f"{folder_of(file)}/recording{(match[1] or '') if match else ''}.tar"
    return tar if match and stamp_of_file(tar) is not None else ""


def _audio_members(tar: str) -> dict[str, str]:
    """Id of each cut → the member with its audio: `ID.flac`; its `ID.json` and empty `ID.nodata` are left out."""
    others = (".json", ".nodata", ".nometa")
    return {name.rpartition(".")[0]: name for name in tar_members(tar) if not name.endswith(others)}


def _open(uri: str, options: LhotseOptions, _exclude: Sequence[str]) -> ItemCorpus:
    files = files_of(uri, _EXTENSIONS)
    return ItemCorpus(uri, LhotseItems(tuple(files), root_of(uri, files), options))


KIND = SourceKind(
    _open,
    LhotseOptions,
    columns={"key": "id", "start": "start", "duration": "duration", "channel": "channel"},
    types={"supervisions": "intervals"},
)
