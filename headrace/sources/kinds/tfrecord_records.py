"""Reads the records of TFRecord files, plain or GZIP, with all checksums; each is a `tf.train.Example`."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple, Protocol

from headrace.errors import ConfigError
from headrace.sources.kinds.crc32c import masked_crc32c
from headrace.sources.kinds.gzip_points import GzipReader, Point
from headrace.sources.kinds.tf_examples import Feature, features_of
from headrace.sources.named_files import is_url, opened, stamp_of_file

_HEADER, _FOOTER = 12, 4
_MOST_BYTES = 512 << 20
_MOST_VALUES = 1000
_GZIP = b"\x1f\x8b\x08"


class _Stream(Protocol):
    def read(self, num_bytes: int, /) -> bytes: ...


class Record(NamedTuple):
    """A record: where its data begins in the content of the file, the data, its features, or why it cannot be used."""

    start: int
    data: bytes = b""
    features: Mapping[str, Feature] = {}
    fault: str = ""


def read_records(file: str, points: list[Point] | None = None) -> Iterator[Record]:
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
                stamp = stamp_of_file(file)
                yield from _records(data, stamp.num_bytes if stamp else 0)
            elif is_url(file):
                raise ConfigError(
                    f"{file}: GZIP files of a bucket are not read in place; unpack them, or copy them here"
                )
            else:
                yield from _records(GzipReader(data, points=points), None)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def _is_gzip(data: BinaryIO) -> bool:
    """Whether a file is GZIP. A record of 559,903 bytes begins with the same three bytes, but has its checksum."""
    head = data.read(_HEADER)
    data.seek(0)
    return head.startswith(_GZIP) and masked_crc32c(head[:8]) != int.from_bytes(head[8:], "little")


def _records(stream: _Stream, size: int | None) -> Iterator[Record]:
    """The records of the content of a file of this size, if it is known."""
    at = 0
    try:
        while header := stream.read(_HEADER):
            if len(header) < _HEADER or masked_crc32c(header[:8]) != int.from_bytes(header[8:], "little"):
                yield Record(at, fault="the checksum of its length is wrong; what follows cannot be found")
                return
            length, at = int.from_bytes(header[:8], "little"), at + _HEADER
            if length > (_MOST_BYTES if size is None else min(_MOST_BYTES, size - at)):
                yield Record(at, fault=f"it has {length} bytes, more than are there, or than 512 MiB")
                return
            data, footer = stream.read(length), stream.read(_FOOTER)
            if len(footer) < _FOOTER:
                yield Record(at, fault="the file ends within it")
                return
            yield _record(at, data, is_whole=masked_crc32c(data) == int.from_bytes(footer, "little"))
            at += length + _FOOTER
    except OSError as error:
        yield Record(at, fault=str(error))


def _record(at: int, data: bytes, *, is_whole: bool) -> Record:
    if not is_whole:
        return Record(at, fault="its checksum is wrong")
    try:
        return Record(at, data, features_of(data, _MOST_VALUES))
    except ValueError as error:
        return Record(at, fault=f"invalid tf.train.Example: {error}")
