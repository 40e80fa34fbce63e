"""`kind: webdataset`: the samples of plain tars, as any WebDataset has them; recordings are members, read in place.

A sample is the members of one key. The keys of its JSON are columns, its `txt` is the column `text`.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.config.section import Section
from headrace.errors import ConfigError
from headrace.format.tars.member_names import JSON_FIELD, KeyAt, audio_field, members_of, split_name
from headrace.format.tars.tar import payload
from headrace.format.tars.tar_members import Member
from headrace.format.tars.tar_names import is_plain_tar
from headrace.format.typed_json import json_value
from headrace.locate import locate
from headrace.source_kinds import SourceKind
from headrace.sources.corpus_rows import own_columns
from headrace.sources.items import Item, ItemCorpus, Place, as_text
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import absolute, opened, relative, stamp_of_file
from headrace.sources.tar_places import member_item, place_in_tar, tar_fault, tar_members

_KEPT_TARS = 256
_TEXT_FIELD = "txt"
_Sample = Mapping[str, Member]


class WebdatasetOptions(Section):
    """The options of `kind: webdataset`.

    Attributes:
        key_at: where the key of a member's name ends.
        audio_fields: names of the audio fields of each sample, such as `vocals` for `x.vocals.flac`; empty: one field.
    """

    key_at: KeyAt = KeyAt.FIRST_DOT
    audio_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class WebdatasetItems:
    """The recordings and samples of tars.

    Attributes:
        tars: paths or URLs of the tars, in order.
        root: the folder to which paths in the listing are relative.
        options: see `WebdatasetOptions`.
    """

    tars: tuple[str, ...]
    root: str
    options: WebdatasetOptions

    def items(self) -> Iterator[Item]:
        """See `Items.items`: all members that are audio by their names. A tar that is damaged is one item."""
        for tar in self.tars:
            path = relative(self.root, tar)
            if fault := _fault(tar):
                yield Item(path, tar, fault=fault)
                continue
            faults = _text_faults(tar, stamp_of_file(tar), self.options.key_at)
            for key, fields in _samples(tar, self.options.key_at).items():
                audio = (member for field, member in fields.items() if field.rpartition(".")[2] in AUDIO_EXTENSIONS)
                yield from (member_item(path, tar, member, faults.get(key, "")) for member in audio)

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`."""
        return place_in_tar(self.root, path, stamp)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`: a row for each sample, also for one without audio, whose path no recording has."""
        for tar in self.tars:
            if _fault(tar):
                continue
            path = relative(self.root, tar)
            with opened(tar) as file:
                for key, fields in _samples(tar, self.options.key_at).items():
                    paths = self._paths(path, fields)
                    columns, _ = _columns(file, fields, ("id", "path", *paths))
                    shown = {name: value and as_text(value) for name, value in paths.items()}
                    whole = {"id": key, **paths, **columns}
                    yield whole if shown == paths else shown  # the items of other names are rejects

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.tars

    def _paths(self, path: str, fields: _Sample) -> dict[str, str | None]:
        """The paths of a sample's recordings: one, or one for each audio field."""
        if not self.options.audio_fields:
            field = audio_field(fields) or next(iter(fields))
            return {"path": f"{path}/{fields[field].name}"}
        found = {name: next(iter(members_of(name, fields)), None) for name in self.options.audio_fields}
        return {field_column(name): field and f"{path}/{fields[field].name}" for name, field in found.items()}


def field_column(name: str) -> str:
    """The column with the path of an audio field's recording."""
    return f"{name}_path"


def _fault(tar: str) -> str:
    return tar_fault(tar) if is_plain_tar(tar) else f"{tar}: a compressed tar is not read in place; unpack it to a .tar"


def _samples(tar: str, key_at: KeyAt) -> dict[str, dict[str, Member]]:
    """Key → field → member."""
    found: dict[str, dict[str, Member]] = {}
    for name, member in tar_members(tar).items():
        if (split := split_name(name, key_at)) is not None:
            found.setdefault(split[0], {})[split[1]] = member
    return found


@functools.lru_cache(maxsize=_KEPT_TARS)
def _text_faults(tar: str, _stamp: FileStamp | None, key_at: KeyAt) -> dict[str, str]:
    """Key → what is wrong with the JSON or text of a sample; most tars have none."""
    with opened(tar) as file:
        checked = ((key, _columns(file, fields)[1]) for key, fields in _samples(tar, key_at).items())
        return {key: fault for key, fault in checked if fault}


def _columns(file: BinaryIO, fields: _Sample, taken: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """The columns of a sample from its JSON and its text; or none, and what is wrong with these members.

    `taken` are names that its JSON cannot have.
    """
    found: dict[str, Any] = {}
    if (member := fields.get(JSON_FIELD)) is not None:
        try:
            content = json_value(payload(file, (member.start, member.stop)).decode("utf-8-sig"))
        except ValueError as error:
            return {}, f"{member.name} is not valid JSON: {error}"
        if not isinstance(content, dict):
            return {}, f"{member.name} is not a JSON object"
        found = content
    if (member := fields.get(_TEXT_FIELD)) is not None:
        try:
            said = payload(file, (member.start, member.stop)).decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            return {}, f"{member.name} is not valid UTF-8"
        return {**own_columns(found, (*taken, "text")), "text": said}, ""
    return own_columns(found, taken), ""


def _open(uri: str, options: WebdatasetOptions, _exclude: Sequence[str]) -> ItemCorpus:
    located = locate(uri)
    if located.tars is None:
        raise ConfigError(f"source.uri {uri}: an output of Headrace; its kind is headrace, not webdataset")
    located.check_built()
    root = absolute(located.tars.storage.uri)
    tars = tuple(f"{root}/{name}" for name in located.tars.names)
    if not any(map(is_plain_tar, tars)):
        raise ConfigError(f"source.uri {uri}: {_fault(tars[0])}")
    return ItemCorpus(uri, WebdatasetItems(tars, root, options))


def _fields(options: WebdatasetOptions) -> dict[str, str]:
    return {name: field_column(name) for name in options.audio_fields}


KIND = SourceKind(_open, WebdatasetOptions, fields=_fields)
