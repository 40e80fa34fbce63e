"""`kind: nemo`: NeMo manifests, JSON Lines with a path, a duration and perhaps an offset for each sample.

Paths are relative to the manifest's folder. In the tarred form the recordings are members of `audio_0.tar` and so on,
beside the manifest or above its folder `sharded_manifests`; the number of the tar is the row's `shard_id` or in the
manifest's name. Rows with `_skipme` are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.source_kinds import ROW_PLACE, SourceKind
from headrace.sources.corpus_rows import LEFT_OUT, own_columns
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import (
    absolute,
    files_in,
    files_of,
    folder_of,
    is_one_pattern,
    joined,
    relative,
    root_of,
    stamp_of_file,
)
from headrace.sources.tar_places import member_item, place_in_tar, tar_fault, tar_members
from headrace.sources.text_tables import json_lines

_EXTENSIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_PATHS = ("audio_filepath", "audio_file")
_TAR = re.compile(r"audio[^/]*_(\d+)[^/]*\.tar")
_SHARDED = re.compile(r"manifest[^/]*_(\d+)[^/]*\.json")
_SHARDED_FOLDER = "sharded_manifests"
_ALL = "tarred_audio_manifest.json"
_PART = re.compile(r"-sub\d+(?=\.[^.]*$|$)")
_OPENING, _CLOSING = re.compile(r"[(\[<]|_OP_"), re.compile(r"[)\]>]|_CL_")


class _Named(NamedTuple):
    """Recording that a row names: its path in the listing, the file or tar, and the member of the tar."""

    path: str
    file: str
    member: str = ""


@dataclass(frozen=True)
class NemoItems:
    """The recordings and rows of manifests.

    Attributes:
        manifests: the files, in order.
        root: the folder to which paths in the listing are relative.
    """

    manifests: tuple[str, ...]
    root: str

    def items(self) -> Iterator[Item]:
        """See `Items.items`. With tars, members that no row names are listed, too."""
        left_out, tars = set(), dict.fromkeys(tar for found in self._tars.values() for tar in found.values())
        for _, named, place in self._rows():
            if not place:
                left_out.add(named.path)
            elif not named.member:
                yield Item(named.path, named.file)
            elif named.file not in tars:
                fault = f"{named.file}: there is no such tar"
                yield Item(named.path, fault=fault)
        for tar in tars:
            yield from self._members(tar, left_out)

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`."""
        file = joined(self.root, path)
        return Place(file) if stamp_of_file(file) is not None else place_in_tar(self.root, path, stamp)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`."""
        for content, named, place in self._rows():
            if place:
                yield {ROW_PLACE: place, "path": named.path, **own_columns(content, ("path",))}
            else:
                yield LEFT_OUT

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.manifests

    @cached_property
    def _tars(self) -> dict[str, dict[int, str]]:
        """Folder of a manifest → number → tar."""
        return {folder: _tars_of(folder) for folder in map(folder_of, self.manifests)}

    def _rows(self) -> Iterator[tuple[dict[str, Any], _Named, str]]:
        """Each row, what it names, and its line and file; nothing for one that is to be skipped."""
        for manifest in self.manifests:
            match = _SHARDED.fullmatch(manifest.rpartition("/")[2])
            number = int(match[1]) if match else None
            for line, content in json_lines(manifest):
                name = next((content[key] for key in _PATHS if content.get(key)), None)
                if not isinstance(name, str):
                    raise ConfigError(f"{manifest}, line {line}: expected text in {' or '.join(_PATHS)}")
                yield (
                    content,
                    self._named(folder_of(manifest), name, content.get("shard_id", number)),
                    f"line {line} of {manifest}" if _is_chosen(content) else "",
                )

    def _named(self, folder: str, name: str, number: object) -> _Named:
        tars = self._tars[folder]
        if not tars or not isinstance(number, int):
            file = joined(folder, name)
            return _Named(relative(self.root, file), file)
        tar = tars.get(number, joined(folder, f"audio_{number}.tar"))
        member = self._member(tar, name)
        return _Named(f"{relative(self.root, tar)}/{member}", tar, member)

    def _member(self, tar: str, name: str) -> str:
        """The member that a row names: `x-sub2.wav` is a part of `x.wav`, unless there is a member of this name."""
        is_part = _PART.search(name) and not tar_fault(tar) and name not in tar_members(tar)
        return _PART.sub("", name) if is_part else name

    def _members(self, tar: str, left_out: set[str]) -> Iterator[Item]:
        path = relative(self.root, tar)
        if fault := tar_fault(tar):
            yield Item(path, fault=fault)
            return
        for member in tar_members(tar).values():
            if f"{path}/{member.name}" not in left_out:
                yield member_item(path, tar, member)


def _is_chosen(content: Mapping[str, Any]) -> bool:
    return str(content.get("_skipme", "")).lower() not in {"true", "1", "1.0"}


def _tars_of(folder: str) -> dict[int, str]:
    """Number → tar of the tars that belong to the manifests in a folder."""
    place = folder_of(folder) if folder.endswith(f"/{_SHARDED_FOLDER}") else folder
    found = ((_TAR.fullmatch(file.rpartition("/")[2]), file) for file in files_in(place))
    return {int(match[1]): file for match, file in found if match}


def _manifests(uri: str) -> list[str]:
    """The manifests that `source.uri` names. In a tarred folder, the one of all tars or those of each tar."""
    folder, slash, last = uri.rpartition("/") if is_one_pattern(absolute(uri)) else ("", "", uri)
    if stamp_of_file(absolute(uri)) is None and not files_in(absolute(uri)) and "*" not in last:
        uri = folder + slash + _CLOSING.sub("}", _OPENING.sub("{", last))
    folder = absolute(uri)
    if stamp_of_file(f"{folder}/{_ALL}") is not None:
        return [f"{folder}/{_ALL}"]
    sharded = [file for file in files_in(f"{folder}/{_SHARDED_FOLDER}") if _SHARDED.fullmatch(file.rpartition("/")[2])]
    return sharded or files_of(uri, _EXTENSIONS)


def _open(uri: str, _options: object, _exclude: Sequence[str]) -> ItemCorpus:
    if uri.rpartition("/")[2].startswith("pipe:") or uri.startswith("pipe:"):
        raise ConfigError(f"source.uri {uri}: commands are not run; write the manifest to a file, and name the file")
    manifests = _manifests(uri)
    return ItemCorpus(uri, NemoItems(tuple(manifests), root_of(uri, manifests)))


KIND = SourceKind(_open, columns={"start": "offset", "duration": "duration"})
