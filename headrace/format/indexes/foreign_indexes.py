"""Reads the indexes that other tools write beside tars: `X.tar.idx` of Energon and Lhotse, `X.json` of webshart.

Of such an index only one thing is taken: where the headers of a tar are, so that they are requested many at a time. The
tar is walked over what was read, as without an index, and the two are compared. So an index that does not fit its tar
costs requests and gives a warning, and never a wrong sample.
"""

import io
import itertools
import posixpath
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.audio_names import AUDIO_EXTENSIONS
from headrace.errors import FormatError, NotFoundError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.indexing import key_rule_of
from headrace.format.tars.member_names import LATENT_FIELD, KeyAt, split_name
from headrace.format.tars.tar import read_members
from headrace.format.tars.tar_names import TAR_SUFFIX
from headrace.format.typed_json import json_value
from headrace.stores.concurrent_requests import map_on_threads
from headrace.stores.ranged_files import will_read
from headrace.stores.storage import Bucket, Storage

_Span = tuple[int, int]
_BLOCK_BYTES = 512
_HEAD_BYTES = 64  # of an audio file whose header says its length
_SMALL_BYTES = 16 << 10  # a text that becomes a column
_GAP_BYTES = 2048  # what is read between two parts rather than requested apart
_PART_BYTES = 1 << 20
_MOST_OF_TAR = 1 / 4  # a tar of which more has to be read is better read from front to end
_READ_WHOLE = {*AUDIO_EXTENSIONS, LATENT_FIELD} - {"flac", "wav", "rf64", "aiff", "aif", "aifc"}


class ForeignIndex(Protocol):
    """Another tool's index of a tar."""

    def parts(self, file: BinaryIO, *, reads_members: bool) -> Iterable[_Span]:
        """Half-open byte ranges of a tar that are read when it is indexed, as far as the index says.

        Args:
            file: the tar.
            reads_members: whether short members are read, besides headers.
        """

    def flaw(self, index: ShardIndex) -> str:
        """The difference between the index and that of Headrace for the same tar; empty if they agree."""


@dataclass(frozen=True, slots=True)
class SampleOffsets:
    """The index of Energon and Lhotse: little-endian unsigned 64-bit numbers.

    Attributes:
        begins: int64 (n,), first byte of the first header of each sample.
        end: end of the last sample (Energon) or of the tar (Lhotse).
    """

    begins: NDArray[np.int64]
    end: int

    @classmethod
    def parsed(cls, blob: bytes, num_bytes: int) -> "SampleOffsets":
        """The index in a file, for a tar of this size. Raises `ValueError`."""
        if not blob or len(blob) % 8:
            raise ValueError(f"has {len(blob)} bytes, which is not a list of 64-bit numbers")
        places = np.frombuffer(blob, "<u8")
        if (places > num_bytes).any() or (places[1:] <= places[:-1]).any() or (places[:-1] % _BLOCK_BYTES).any():
            raise ValueError(f"is not a list of rising places in {num_bytes} bytes")
        return cls(places[:-1].astype(np.int64), int(places[-1]))

    def parts(self, file: BinaryIO, *, reads_members: bool) -> Iterable[_Span]:
        """See `ForeignIndex.parts`: about each begin, as much as the first sample has around its largest member."""
        begins = [*self.begins.tolist(), self.end]
        try:
            first = list(itertools.takewhile(lambda member: member.start < begins[1], read_members(file, "")))
            largest = max(first, key=lambda member: member.stop - member.start)
        except (IndexError, FormatError, ValueError):  # no sample in the index or the tar: indexing says what is wrong
            return []
        before = begins[1] - largest.stop
        before = before + _BLOCK_BYTES if 0 <= before <= _SMALL_BYTES else 0  # texts are not all of one length
        after = largest.start - begins[0] + _wanted(largest.name, largest.stop - largest.start, reads_members)
        return [(max(begins[1], begin - before), begin + after) for begin in begins[1:]]  # the first sample was read

    def flaw(self, index: ShardIndex) -> str:
        """See `ForeignIndex.flaw`. A header may be longer than a block, and other members may be between samples."""
        if len(self.begins) != len(index):
            return f"is of {len(self.begins)} samples, and the tar has {len(index)}"
        ranges = index.ranges
        starts = np.where(ranges[..., 0] == ABSENT, np.iinfo(np.int64).max, ranges[..., 0]).min(1) - _BLOCK_BYTES
        ends = -(-ranges[..., 1].max(1) // _BLOCK_BYTES) * _BLOCK_BYTES
        earliest = np.append(0, ends[:-1])
        for number in np.flatnonzero((self.begins < earliest) | (self.begins > starts)).tolist():
            return f"says that sample {number} begins at byte {self.begins[number]}, and it begins at {starts[number]}"
        if self.end < ends[-1]:
            return f"ends at byte {self.end}, and the last sample at {ends[-1]}"
        return ""


@dataclass(frozen=True, slots=True)
class MemberSpans:
    """The index of webshart.

    Attributes:
        spans: name of a member → half-open byte range of its content, in the order of the tar.
    """

    spans: Mapping[str, _Span]

    @classmethod
    def parsed(cls, blob: bytes, num_bytes: int) -> "MemberSpans | None":
        """The index in a file, for a tar of this size; None for other JSON. Raises `ValueError`."""
        if b'"files"' not in blob:
            return None
        content = json_value(blob)
        files = content.get("files") if isinstance(content, dict) else None
        if not isinstance(files, dict | list) or not files:
            return None
        if content.get("filesize", 0) not in (0, num_bytes):
            raise ValueError(f"is of a tar of {str(content['filesize'])[:40]} bytes, and the tar has {num_bytes}")
        listed = files.items() if isinstance(files, dict) else ((_name(entry), entry) for entry in files)
        spans = {str(name): _span(str(name), entry, num_bytes) for name, entry in listed}
        return cls(dict(sorted(spans.items(), key=lambda found: found[1])))

    def parts(self, file: BinaryIO, *, reads_members: bool) -> Iterable[_Span]:  # noqa: ARG002 - all is known
        """See `ForeignIndex.parts`."""
        end = 0
        for name, (start, stop) in self.spans.items():
            header = start - _BLOCK_BYTES
            begin = end if 0 <= header - end <= _GAP_BYTES else header  # a header may be longer than a block
            yield begin, start + _wanted(name, stop - start, reads_members)
            end = stop + -stop % _BLOCK_BYTES

    def flaw(self, index: ShardIndex) -> str:
        """See `ForeignIndex.flaw`. Members that it does not list count for nothing."""
        key_at, ranges = KeyAt(key_rule_of(index)), index.ranges.tolist()
        there = {
            (posixpath.normpath(key), name): tuple(span)
            for key, spans in zip(index.keys(), ranges, strict=True)
            for name, span in zip(index.fields, spans, strict=True)
        }
        for name, (start, stop) in self.spans.items():
            if (member := split_name(posixpath.normpath(name), key_at)) is None:
                continue
            if there.get(member) != (start, stop):
                return f"says that {name[:80]!r} is bytes {start} to {stop}, and the tar has no such member there"
        return ""


def _name(entry: object) -> str:
    names = [entry[key] for key in ("path", "fname", "filename") if key in entry] if isinstance(entry, dict) else []
    if not names or not isinstance(names[0], str):
        raise ValueError("lists a file without a name")
    return names[0]


def _span(name: str, entry: object, num_bytes: int) -> _Span:
    content = entry if isinstance(entry, dict) else {}
    start, length = content.get("offset"), content.get("length", content.get("size"))
    if type(start) is not int or type(length) is not int or start < _BLOCK_BYTES or start % _BLOCK_BYTES:
        raise ValueError(f"has no place of {name[:80]!r}")
    if length < 0 or start + length > num_bytes:
        raise ValueError(f"says that {name[:80]!r} is outside of a tar of {num_bytes} bytes")
    return start, start + length


def _wanted(name: str, num_bytes: int, reads_members: bool) -> int:  # noqa: FBT001 - as `parts` got it
    """Number of bytes of a member that are read when its tar is indexed."""
    is_whole = name.rpartition(".")[2].lower() in _READ_WHOLE or (reads_members and num_bytes <= _SMALL_BYTES)
    return num_bytes if is_whole else min(num_bytes, _HEAD_BYTES)


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """Another tool's index beside a tar in a store.

    Attributes:
        uri: the whole name of its file.
        index: what it says.
    """

    uri: str
    index: ForeignIndex

    def plan(self, file: BinaryIO, *, reads_members: bool) -> bool:
        """Have an `opened_sparsely` tar request what is read when it is indexed, many parts at a time.

        Returns:
            Whether that is a small part of the tar; otherwise nothing is planned.
        """
        num_bytes = file.seek(0, io.SEEK_END)
        parts = _joined(self.index.parts(file, reads_members=reads_members), num_bytes)
        if not 0 < sum(stop - start for start, stop in parts) <= _MOST_OF_TAR * num_bytes:
            return False
        will_read(file, parts)
        return True

    def compare(self, made: ShardIndex) -> None:
        """Warn if it does not fit the index that was made from the tar."""
        if flaw := self.index.flaw(made):
            _warn(self.uri, flaw)


def find_foreign_index(storage: Storage, tar: str) -> FoundIndex | None:
    """Another tool's index beside a tar in a store; warns of one that cannot be right.

    None beside local tars, whose headers are read without requests.
    """
    if not isinstance(storage, Bucket) or not tar.endswith(TAR_SUFFIX):  # X.TAR.idx is Headrace's index of X.TAR
        return None
    forms = {f"{tar}.idx": SampleOffsets.parsed, f"{tar[: -len(TAR_SUFFIX)]}.json": MemberSpans.parsed}
    # Most tars have neither, and waiting twice would take twice as long.
    blobs = map_on_threads(lambda path: _content(storage, path), list(forms), "foreign-index")
    for (path, parse), blob in zip(forms.items(), blobs, strict=True):
        if blob is None:
            continue
        uri = f"{storage.uri}/{path}"
        try:
            index: ForeignIndex | None = parse(blob, storage.size(tar))
        except ValueError as error:
            _warn(uri, str(error))
            continue
        if index is not None:
            return FoundIndex(uri, index)
    return None


def _content(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFoundError:
        return None


def _warn(uri: str, flaw: str) -> None:
    warnings.warn(
        f"{uri}: {flaw}; it is left unused, and the tar is read without it. Write it again with its tool, or remove it",
        stacklevel=3,
    )


def _joined(parts: Iterable[_Span], num_bytes: int) -> list[_Span]:
    """Rising ranges without overlap that hold these parts of a file; small gaps are read along."""
    found: list[_Span] = []
    for begin, end in sorted(parts):
        start, stop = max(begin, found[-1][1] if found else 0), min(end, num_bytes)
        if found and start - found[-1][1] <= _GAP_BYTES and stop - found[-1][0] <= _PART_BYTES:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return found
