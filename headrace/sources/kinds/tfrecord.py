"""`kind: tfrecord`: TFRecord files of `tf.train.Example`, plain or GZIP; each record is a sample.

One feature has the bytes of an audio file. The others are columns, if they are text or few numbers. All checksums are
compared when a file is listed, so a process reads a new or changed file once. TensorFlow is not needed. The files of a
bucket are plain: of a GZIP file, bytes are found by points that are kept in memory.
"""

import functools
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.config.section import Section
from headrace.errors import ConfigError, NotFoundError
from headrace.source_kinds import SourceKind
from headrace.sources.corpus_rows import own_columns
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.crc32c import masked_crc32c
from headrace.sources.kinds.gzip_points import POINT_BYTES, GzipReader, Point, stretch_at, stretch_of
from headrace.sources.kinds.tf_examples import Feature, features_of
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept
from headrace.sources.named_files import absolute, files_in, files_of, is_url, joined, opened, relative, root_of
from headrace.sources.named_files import stamp_of_file as stamp_of

_NAME = re.compile(r"[^/]*\.tf_?records?(-\d+-of-\d+)?(\.gz)?")
_HEADER, _FOOTER = 12, 4
_MOST_BYTES = 512 << 20
_MOST_NUMBERS = 1000
_AUDIO = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"FORM", b"\xff\xfb", b"\xff\xf3")
_GZIP = b"\x1f\x8b\x08"


class TfrecordOptions(Section):
    """The options of `kind: tfrecord`.

    Attributes:
        audio: the feature with the bytes of audio files; None for the only one that begins as such a file does.
    """

    audio: str | None = None


class _Stream(Protocol):
    def read(self, num_bytes: int, /) -> bytes: ...


class _Record(NamedTuple):
    """A record: where its data begins in the content of the file, the data, or why it cannot be used."""

    start: int
    data: bytes = b""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The content of a file.

    Attributes:
        spans: int64 (records, 2), first byte and number of bytes of the audio in the content of the file.
        faults: number of a record → why it has no audio.
        lists: features that have several values in some record.
        left_out: features that are no columns: bytes that are no text, and more numbers than a column has.
        points: points of a GZIP file; None for a plain one.
    """

    spans: NDArray[np.int64]
    faults: Mapping[int, str]
    lists: frozenset[str]
    left_out: frozenset[str]
    points: list[Point] | None

    @property
    def num_bytes(self) -> int:
        return self.spans.nbytes + 100 * len(self.faults) + POINT_BYTES * len(self.points or ())


_contents = Kept[_Contents](lambda contents: contents.num_bytes)
_stretches = Kept[bytes](len)
_unpacking = threading.Lock()  # several threads that want one stretch unpack it once


@dataclass(frozen=True)
class TfrecordItems:
    """The records of TFRecord files.

    Attributes:
        files: the files, in order.
        root: the folder to which paths in the listing are relative.
        options: see `TfrecordOptions`.
    """

    files: tuple[str, ...]
    root: str
    options: TfrecordOptions

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        for file in self.files:
            path, contents = relative(self.root, file), self._contents(file)
            for number, (_, num_bytes) in enumerate(contents.spans.tolist()):
                yield Item(f"{path}/{number}", file, num_bytes, fault=contents.faults.get(number, ""))

    def place(self, path: str, _stamp: FileStamp) -> Place:
        """See `Items.place`."""
        name, _, number = path.rpartition("/")
        file = joined(self.root, name)
        contents = self._contents(file) if file in self.files else None
        if contents is None or not number.isdecimal() or int(number) >= len(contents.spans):
            raise NotFoundError(f"{path}: there is no such record")
        start, num_bytes = contents.spans[int(number)].tolist()
        if contents.points is None:
            return Place(file, start)
        return Place(file, content=partial(_unpacked, file, stamp_of(file), contents.points, start, num_bytes))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`. Records that are damaged have a path alone."""
        every = [self._contents(file) for file in self.files]
        lists = frozenset().union(*(contents.lists for contents in every))
        left_out = frozenset({self._audio}).union(*(contents.left_out for contents in every))
        for file in self.files:
            for number, record in enumerate(_read(file, [])):
                found = {} if record.fault else _features(record.data)
                columns = {
                    name: _value(record.data, feature, is_list=name in lists)
                    for name, feature in sorted(found.items())
                    if name not in left_out
                }
                yield {"path": f"{relative(self.root, file)}/{number}", **own_columns(columns, ("path",))}

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.files

    @functools.cached_property
    def _audio(self) -> str:
        """The feature with audio. Raises `ConfigError`."""
        record = next((record for file in self.files for record in _read(file, []) if not record.fault), None)
        found = _features(record.data) if record else {}
        if self.options.audio is not None:
            return self.options.audio
        audio = [name for name, feature in found.items() if record and _is_audio(record.data, feature)]
        if len(audio) != 1:
            known = ", ".join(f"{name} ({feature.form})" for name, feature in sorted(found.items()))
            raise ConfigError(
                f"{self.files[0]}: expected one feature with the bytes of an audio file, found {len(audio)}; "
                f"source.options: {{audio: FEATURE}} names it. The features of the first record are {known or 'none'}"
            )
        return audio[0]

    def _contents(self, file: str) -> _Contents:
        return _contents.of((file, stamp_of(file), self._audio), lambda: _indexed(file, self._audio))


def _indexed(file: str, audio: str) -> _Contents:
    """Read a file once, with all its checksums."""
    points: list[Point] = []
    spans, faults, lists, left_out = [], {}, set[str](), set[str]()
    for number, record in enumerate(_read(file, points)):
        found = {} if record.fault else _features(record.data)
        span, fault = _audio_span(found.get(audio), audio)
        spans.append((record.start + span[0], span[1] - span[0]))
        if fault := record.fault or fault:
            faults[number] = f"record {number} of {file}: {fault}"
        lists |= {name for name, feature in found.items() if len(feature.values) > 1}
        left_out |= {name for name, feature in found.items() if not _is_column(record.data, feature)}
    array = np.array(spans, np.int64).reshape(-1, 2)
    is_packed = _is_packed(file)
    return _Contents(array, faults, frozenset(lists), frozenset(left_out), points if is_packed else None)


def _read(file: str, points: list[Point]) -> Iterator[_Record]:
    """The records of a file; behind damage that hides the next record there is one with a fault.

    Args:
        file: the file.
        points: gets the points of a GZIP file.

    Raises:
        ConfigError: the file cannot be read at all.
    """
    try:
        with opened(file) as data:
            if not _is_gzip(data):
                stamp = stamp_of(file)
                yield from _records(data, stamp.num_bytes if stamp else 0)
                return
            if is_url(file):
                raise ConfigError(
                    f"{file}: GZIP files of a bucket are not read in place; unpack them, or copy them here"
                )
            reader = GzipReader(data)
            reader.points = points
            yield from _records(reader, None)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def _records(stream: _Stream, size: int | None) -> Iterator[_Record]:
    """The records of the content of a file of this size, if it is known."""
    at = 0
    try:
        while header := stream.read(_HEADER):
            if len(header) < _HEADER or masked_crc32c(header[:8]) != int.from_bytes(header[8:], "little"):
                yield _Record(at, fault="the checksum of its length is wrong; what follows cannot be found")
                return
            length, at = int.from_bytes(header[:8], "little"), at + _HEADER
            if length > (_MOST_BYTES if size is None else min(_MOST_BYTES, size - at)):
                yield _Record(at, fault=f"it has {length} bytes, more than are there, or than 512 MiB")
                return
            data, footer = stream.read(length), stream.read(_FOOTER)
            if len(footer) < _FOOTER:
                yield _Record(at, fault="the file ends within it")
                return
            is_whole = masked_crc32c(data) == int.from_bytes(footer, "little")
            yield _Record(at, data, _damage(data) if is_whole else "its checksum is wrong")
            at += length + _FOOTER
    except OSError as error:
        yield _Record(at, fault=str(error))


def _damage(data: bytes) -> str:
    try:
        _features(data)
    except ValueError as error:
        return f"invalid tf.train.Example: {error}"
    return ""


def _features(data: bytes) -> dict[str, Feature]:
    return features_of(data, _MOST_NUMBERS)


def _audio_span(feature: Feature | None, name: str) -> tuple[tuple[int, int], str]:
    """First byte and end of the audio in a record; or the reason for its absence."""
    if feature is None or not feature.form:
        return (0, 0), f"it has no feature {name!r}"
    if feature.form != "bytes":
        return (0, 0), f"its feature {name!r} has numbers; expected the bytes of an audio file"
    if len(feature.values) != 1:
        return (0, 0), f"its feature {name!r} has {len(feature.values)} values; expected one"
    start, stop = feature.values[0]  # type: ignore[misc]  # of bytes: spans
    return (start, stop), ""


def _is_audio(data: bytes, feature: Feature) -> bool:
    return feature.form == "bytes" and len(feature.values) == 1 and data.startswith(_AUDIO, feature.values[0][0])  # type: ignore[index]


def _is_column(data: bytes, feature: Feature) -> bool:
    if feature.form != "bytes":
        return not feature.is_long
    try:
        return all("\0" not in data[start:stop].decode() for start, stop in feature.values)  # type: ignore[misc]
    except UnicodeDecodeError:
        return False


def _value(data: bytes, feature: Feature, *, is_list: bool) -> Any:  # noqa: ANN401 - a value of JSON
    """The value of a column: null without any, and for numbers that JSON does not have."""
    if feature.form == "bytes":
        values = [data[slice(*value)].decode() for value in feature.values]  # type: ignore[misc]
    else:
        values = [value if math.isfinite(value) else None for value in feature.values]  # type: ignore[arg-type,misc]
    return values if is_list else next(iter(values), None)


def _is_gzip(data: BinaryIO) -> bool:
    """Whether a file is GZIP. A record of 559,903 bytes begins with the same three bytes, but has its checksum."""
    head = data.read(_HEADER)
    data.seek(0)
    return head.startswith(_GZIP) and masked_crc32c(head[:8]) != int.from_bytes(head[8:], "little")


def _is_packed(file: str) -> bool:
    with opened(file) as data:
        return _is_gzip(data)


def _unpacked(file: str, stamp: FileStamp | None, points: list[Point], start: int, num_bytes: int) -> bytes:
    """Bytes of the content of a GZIP file. What is around them is kept, for records that are opened in order."""
    first, last = stretch_of(points, start), stretch_of(points, start + num_bytes)
    with _unpacking:
        found = [_stretches.of((file, stamp, at), partial(_stretch, file, points, at)) for at in range(first, last + 1)]
    start -= points[first].unpacked
    return b"".join(found)[start : start + num_bytes] if len(found) > 1 else found[0][start : start + num_bytes]


def _stretch(file: str, points: list[Point], number: int) -> bytes:
    with opened(file) as data:
        return stretch_at(data, points, number)


def _files_of(uri: str) -> list[str]:
    """The files that `source.uri` names; those of a folder that have the name of a TFRecord file."""
    in_folder = [file for file in files_in(absolute(uri)) if _NAME.fullmatch(file.rpartition("/")[2])]
    return in_folder or files_of(uri, (".tfrecord", ".tfrecords", ".tfrecord.gz"))


def _open(uri: str, options: TfrecordOptions, _exclude: Sequence[str]) -> ItemCorpus:
    files = _files_of(uri)
    return ItemCorpus(uri, TfrecordItems(tuple(files), root_of(uri, files), options))


KIND = SourceKind(_open, TfrecordOptions, columns={})
