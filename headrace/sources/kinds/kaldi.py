"""`kind: kaldi`: a Kaldi data directory (`wav.scp`, `segments`, `text`, `utt2spk` and others).

A recording of `wav.scp` is a file, several files with a channel each, audio inside of an archive (`flac.ark:1234`), or
a command that only decodes a file (`headrace.sources.kinds.pipes`). An utterance is a row. Relative paths begin at the
data directory or at the nearest folder above it in which the first of them is.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from headrace.errors import ConfigError
from headrace.source_kinds import SourceKind
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.pipes import parsed_pipe
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import absolute, base_of, joined, opened, relative, stamp_of_file
from headrace.sources.text_tables import numbered_lines

_TABLES = ("wav.scp", "segments", "text", "utt2spk", "utt2lang", "spk2gender", "reco2file_and_channel")
_DIGITS = 18  # of a number that fits into 64 bits
_IN_ARCHIVE = re.compile(rf"(.+):([0-9]{{1,{_DIGITS}}})")
_LETTERS = {"A": 0, "B": 1}
_HEADER = 16
_SPAN_FIELDS = 3
_BETWEEN = "\t"  # the paths of the files of a recording, in its path: no path in a line of several has it


class _Recording(NamedTuple):
    """A line of `wav.scp`: the path in the listing, the file, and the channel; or why it cannot be used.

    `more` are files with further channels.
    """

    path: str
    file: str = ""
    offset: int | None = None
    channel: int | None = None
    fault: str = ""
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class KaldiItems:
    """The recordings and utterances of a data directory.

    Attributes:
        root: the data directory, absolute.
    """

    root: str

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        recordings = _recordings(self.root)
        ends = _ends(recordings)
        for recording in recordings.values():
            yield _item(recording, ends)

    def place(self, path: str, _stamp: FileStamp) -> Place:
        """See `Items.place`."""
        match = _IN_ARCHIVE.fullmatch(path)
        if match is None:
            first, *more = _files(self.root, path, _BETWEEN)
            return Place(first, more=tuple(more))
        file = joined(self.root, match[1])
        return Place(file, _embedded(file, int(match[2]))[0])

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`."""
        recordings, tables = _recordings(self.root), _Tables(self.root)
        for utterance, recording_id, span in self._utterances(recordings, tables):
            recording = recordings.get(recording_id, _Recording(_unnamed(recording_id)))
            channel = span.pop("channel", None)
            if channel is None:
                channel = tables.channels.get(recording_id, recording.channel)
            told = {} if channel is None else {"channel": channel}
            yield {"id": utterance, "path": recording.path, **span, **told, **tables.of(utterance)}

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return [f"{self.root}/{name}" for name in _TABLES]

    def _utterances(
        self, recordings: Mapping[str, _Recording], tables: "_Tables"
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Each utterance, its recording and span; then those that only `text` has, which no recording has."""
        segments = _table(self.root, "segments")
        spans = {} if segments is None else segments
        channels = _channels(field for rest in spans.values() for field in rest.split()[_SPAN_FIELDS:][:1])
        for utterance, rest in spans.items():
            fields = rest.split()
            yield utterance, fields[0] if fields else "", _span(fields[1:], channels)
        for utterance in recordings if segments is None else ():
            yield utterance, utterance, {}
        known = recordings if segments is None else spans
        for utterance in tables.text:
            if utterance not in known:
                yield utterance, utterance, {}


@dataclass(frozen=True)
class _Tables:
    """The columns and channels that the files of a data directory give."""

    root: str

    @cached_property
    def text(self) -> dict[str, str]:
        return _table(self.root, "text") or {}

    @cached_property
    def channels(self) -> dict[str, int]:
        """Recording → its channel."""
        found = _table(self.root, "reco2file_and_channel") or {}
        last = {name: fields[-1] for name, rest in found.items() if (fields := rest.split())}
        channels = _channels(last.values())
        return {name: channels[field] for name, field in last.items() if field in channels}

    @cached_property
    def _columns(self) -> dict[str, dict[str, str]]:
        named = {"text": "text", "speaker": "utt2spk", "language": "utt2lang"}
        tables = {column: _table(self.root, name) for column, name in named.items()}
        return {column: table for column, table in tables.items() if table is not None}

    @cached_property
    def _genders(self) -> dict[str, str] | None:
        return _table(self.root, "spk2gender")

    def of(self, utterance: str) -> dict[str, str | None]:
        """The columns of an utterance: of each file that is there."""
        found: dict[str, str | None] = {column: table.get(utterance) for column, table in self._columns.items()}
        if self._genders is not None:
            found["gender"] = self._genders.get(found.get("speaker") or utterance)
        return found


def _table(root: str, name: str) -> dict[str, str] | None:
    """A file of a data directory: id → the rest of the line. None if there is no such file.

    Raises `ConfigError` for an id that comes twice.
    """
    file = f"{root}/{name}"
    if stamp_of_file(file) is None:
        return None
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in numbered_lines(file):
        word, *rest = line.split(maxsplit=1)
        if word in found:
            raise ConfigError(f"{file}, line {number}: the id {word!r} is in line {lines[word]}, too; ids must differ")
        found[word], lines[word] = rest[0].strip() if rest else "", number
    return found


def _recordings(root: str) -> dict[str, _Recording]:
    """Recording id → what its line of `wav.scp` says."""
    lines = _table(root, "wav.scp") or {}
    base: str | None = None
    found = {}
    for name, rest in lines.items():
        path, channel, fault = parsed_pipe(rest) if rest.endswith("|") else (rest, None, "")
        if fault or not path:
            fault = fault or "has no path"
            found[name] = _Recording(_unnamed(name), fault=f"recording {name!r} of wav.scp: {fault}")
            continue
        match = _IN_ARCHIVE.fullmatch(path)
        file, offset = (match[1], int(match[2])) if match else (path, None)
        if base is None and joined(root, file) != file:
            base = base_of(root, file) or base_of(root, file.partition(" ")[0])
        place = joined(base or root, file)
        listed = relative(root, place)
        if match is None and len(places := _files(base or root, path)) > 1:
            listed = _BETWEEN.join(relative(root, one) for one in places)
            found[name] = _Recording(listed, places[0], channel=channel, more=tuple(places[1:]))
            continue
        found[name] = _Recording(listed if offset is None else f"{listed}:{offset}", place, offset, channel)
    return found


def _files(folder: str, names: str, between: str | None = None) -> list[str]:
    """The files that a text names: one, whose path may have spaces, or one for each channel.

    Args:
        folder: the folder to which their paths are relative.
        names: the text.
        between: what is between the paths; None for any space.
    """
    whole, parts = joined(folder, names), names.split(between)
    return [whole] if len(parts) == 1 or stamp_of_file(whole) is not None else [joined(folder, name) for name in parts]


def _item(recording: _Recording, ends: Mapping[tuple[str, int], int]) -> Item:
    if recording.fault or recording.offset is None:
        return Item(recording.path, recording.file, fault=recording.fault, more=recording.more)
    try:
        start, num_bytes = _embedded(recording.file, recording.offset)
    except OSError as error:
        return Item(recording.path, fault=f"{recording.file}: {error.strerror or error}")
    end = ends.get((recording.file, recording.offset), start + num_bytes)
    return Item(recording.path, recording.file, min(num_bytes, end - start))


def _ends(recordings: Mapping[str, _Recording]) -> dict[tuple[str, int], int]:
    """Archive and offset of a recording → where it ends at the latest: before the id of the next one, and a space."""
    inside = ((found.file, found.offset, name) for name, found in recordings.items() if found.offset is not None)
    places = sorted(inside)
    return {
        (file, offset): after - len(name.encode()) - 1
        for (file, offset, _), (next_file, after, name) in pairwise(places)
        if file == next_file and offset < after
    }


def _unnamed(recording: str) -> str:
    """The path in the listing of a recording without a usable path."""
    return f"wav.scp#{recording}"


def _span(fields: Sequence[str], channels: Mapping[str, int]) -> dict[str, Any]:
    """`start`, `end` and perhaps `channel` of a line of `segments`; an end of -1 is that of the recording."""
    start, end, *rest = *fields[:_SPAN_FIELDS], *[""] * (2 - len(fields))
    seconds = {"start": _seconds(start), "end": None if _seconds(end) == -1 else _seconds(end)}
    return {**seconds, "channel": channels[rest[0]]} if rest and rest[0] in channels else seconds


def _seconds(text: str) -> float:
    """A number; NaN for other text, which a scan rejects."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _channels(texts: Iterable[str]) -> dict[str, int]:
    """Number from 0 of each channel that a file names: letters, and numbers, which count from 1 unless one is 0.

    Args:
        texts: the names of channels in the whole file; others are left out.
    """
    numbers = {text: int(text[:_DIGITS]) for text in texts if text.isdecimal()}  # no recording has the rest
    first = 0 if 0 in numbers.values() else 1
    return _LETTERS | {text: number - first for text, number in numbers.items()}


def _embedded(file: str, offset: int) -> tuple[int, int]:
    """First byte and number of bytes of the audio at an offset of an archive.

    Archives have WAV or FLAC itself, or the form `AUDIO`, a length and a file. A FLAC has no length of its own: the
    number is that of all bytes up to the end of the archive. Raises `OSError`.
    """
    with opened(file) as archive:
        archive.seek(offset)
        head = archive.read(_HEADER)
        if head.startswith(b"AUDIO"):
            width = head[5]
            return offset + 6 + width, int.from_bytes(head[6 : 6 + width], "little")
        if head.startswith(b"RIFF"):
            return offset, int.from_bytes(head[4:8], "little") + 8
        if head.startswith(b"fLaC"):
            return offset, _end(archive) - offset
    raise OSError(f"byte {offset} begins neither WAV nor FLAC")


def _end(archive: BinaryIO) -> int:
    return archive.seek(0, os.SEEK_END)


def _open(uri: str, _options: object, _exclude: Sequence[str]) -> ItemCorpus:
    root = absolute(uri)
    if stamp_of_file(f"{root}/wav.scp") is None:
        raise ConfigError(f"source.uri {uri}: expected one Kaldi data directory: a folder with wav.scp")
    return ItemCorpus(uri, KaldiItems(root))


KIND = SourceKind(_open, columns={"key": "id", "start": "start", "end": "end", "channel": "channel"})
