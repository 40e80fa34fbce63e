"""Objects, and other bytes that are read by ranges, as seekable files.

`RawFile` has the position; what is read there is up to its subclasses. `opened_by_ranges` reads an object of a store by
requests.
"""

import bisect
import contextlib
import io
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException, HTTPResponse  # at run time, for the API pages
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from headrace.errors import StoreUnavailableError
from headrace.stores import web_objects
from headrace.stores.contents import PIECE_BYTES
from headrace.stores.temporary_room import temporary_room

T = TypeVar("T")
_TAIL_BYTES = 12_288  # the last member, and what tar programs fill an archive up with
_PARTS_AT_ONCE = 64
_IN_MEMORY_BYTES = 8 << 20


class RawFile(io.RawIOBase):
    """Bytes of a known number as a raw file, for `io.BufferedReader`."""

    def __init__(self, num_bytes: int) -> None:
        """Begin at the first byte."""
        self._size, self._position = num_bytes, 0

    @abstractmethod
    def read_at(self, start: int, stop: int) -> bytes | memoryview:
        """Bytes from `start`, at least one and none from `stop` on, where `start` < `stop`. Raises `OSError`."""

    def readable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        """See `io.RawIOBase`."""
        stop = min(self._position + len(buffer), self._size)
        if stop <= self._position:
            return 0
        data = self.read_at(self._position, stop)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See `io.IOBase`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """See `io.IOBase`."""
        return self._position


class RangeFile(RawFile):
    """Bytes of an open file as a file of their own. Use it below an `io.BufferedReader`."""

    def __init__(self, file: BinaryIO, start: int, num_bytes: int) -> None:
        """Take `num_bytes` bytes from byte `start`. The position of `file` is moved."""
        super().__init__(num_bytes)
        self._file, self._start = file, start

    def read_at(self, start: int, stop: int) -> bytes:
        """See `RawFile.read_at`; empty where the open file has become shorter."""
        self._file.seek(self._start + start)
        return self._file.read(stop - start)


@contextlib.contextmanager
def copied(file: BinaryIO) -> Iterator[BinaryIO]:
    """The rest of a file, as a temporary one. Raises `StorageError` if there is no room for it."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as copy:
        with temporary_room("a copy of an object"):
            while piece := file.read(PIECE_BYTES):
                copy.write(piece)
        copy.seek(0)
        yield cast("BinaryIO", copy)


class RangedStore(Protocol):
    """A store whose objects `opened_by_ranges` reads."""

    def size(self, path: str) -> int:
        """See `Storage.size`."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`. Raises `NoRangesError`."""

    def streamed(self, path: str) -> contextlib.AbstractContextManager[HTTPResponse]:
        """See `ObjectStorage.streamed`."""

    def retried(self, path: str, once: Callable[[], T]) -> T:
        """See `ObjectStorage.retried`."""


def opened_by_ranges(storage: RangedStore, path: str, piece_bytes: int) -> BinaryIO:
    """An object as a seekable file that is read by requests for pieces of this size."""
    return io.BufferedReader(_RangedFile(storage, path), piece_bytes)


def opened_sparsely(storage: RangedStore, path: str, piece_bytes: int) -> BinaryIO:
    """An object as a seekable file of which small parts are read, some of them several times.

    A request is for a piece of this size from the wanted byte on, or for more where more is read at once, or near the
    end of the object, where a tar has blocks of zeros.
    """
    return io.BufferedReader(_SparseFile(storage, path, piece_bytes), piece_bytes)


def will_read(file: BinaryIO, parts: Sequence[tuple[int, int]]) -> None:
    """Say which parts of an `opened_sparsely` file will be read, so that many are requested at a time.

    Args:
        file: the file.
        parts: half-open byte ranges, rising, without overlap.
    """
    raw = getattr(file, "raw", None)
    if isinstance(raw, _SparseFile):
        raw.planned = list(parts)


class _RangedFile(RawFile):
    """An object as a raw file for `io.BufferedReader`. Each read is a request.

    If the server does not answer requests for ranges, the object is read from front to end instead.
    """

    def __init__(self, storage: RangedStore, path: str) -> None:
        self._stream: _Stream | None = None  # first: a file whose size cannot be asked for is closed as well
        super().__init__(storage.size(path))
        self._storage, self._path = storage, path

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        super().close()

    def read_at(self, start: int, stop: int) -> bytes:
        """See `RawFile.read_at`."""
        if self._stream is None:
            try:
                return self._storage.read_ranges(self._path, [(start, stop)])[0]
            except web_objects.NoRangesError:
                self._stream = _Stream(self._storage, self._path)
        return self._stream.read(start, stop)


class _SparseFile(_RangedFile):
    """A `_RangedFile` that keeps its pieces, so that no byte of them is requested twice.

    Attributes:
        planned: parts that will be read; the first read of one requests those after it, too.
    """

    def __init__(self, storage: RangedStore, path: str, piece_bytes: int) -> None:
        super().__init__(storage, path)
        self._piece_bytes = piece_bytes
        self._starts: list[int] = []
        self._pieces: dict[int, bytes] = {}
        self.planned: list[tuple[int, int]] = []

    def read_at(self, start: int, stop: int) -> bytes:
        """See `RawFile.read_at`."""
        if (found := self._kept(start, stop)) or (self._get_planned(start) and (found := self._kept(start, stop))):
            return found
        place = bisect.bisect_right(self._starts, start)
        if stop - start > self._piece_bytes:
            return super().read_at(start, stop)
        known = self._starts[place] if place < len(self._starts) else self._size
        end = self._size if self._size - start <= _TAIL_BYTES else start + self._piece_bytes
        piece = self._pieces[start] = super().read_at(start, min(end, known))
        self._starts.insert(place, start)
        return piece[: stop - start]

    def _kept(self, start: int, stop: int) -> bytes:
        """Bytes from `start` of a piece that is there; empty without one."""
        place = bisect.bisect_right(self._starts, start)
        first = self._starts[place - 1] if place else 0
        return self._pieces.get(first, b"")[start - first : stop - first]

    def _get_planned(self, start: int) -> bool:
        """Request the part that has this byte and those after it; whether there is one."""
        first = bisect.bisect_right(self.planned, (start, self._size)) - 1
        if self._stream is not None or first < 0 or self.planned[first][1] <= start:
            return False
        parts = self.planned[first : first + _PARTS_AT_ONCE]
        del self.planned[first : first + _PARTS_AT_ONCE]
        if self._size - parts[-1][1] <= _TAIL_BYTES:
            parts[-1] = parts[-1][0], self._size
        try:
            blobs = self._storage.read_ranges(self._path, parts)
        except web_objects.NoRangesError:
            return False
        for (begin, _), blob in zip(parts, blobs, strict=True):
            if begin not in self._pieces:
                bisect.insort(self._starts, begin)
            self._pieces[begin] = blob
        return True


class _Stream:
    """One answer with a whole object, which is requested again to go back, or if the connection breaks."""

    def __init__(self, storage: RangedStore, path: str) -> None:
        self._storage, self._path, self._at = storage, path, 0
        self._opened = contextlib.ExitStack()
        self._answer: HTTPResponse | None = None

    def read(self, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of the object."""
        found: bytes = self._storage.retried(self._path, lambda: self._once(start, stop))
        return found

    def close(self) -> None:
        """End the request."""
        self._answer = None
        self._opened.close()

    def _once(self, start: int, stop: int) -> bytes:
        if self._answer is None or start < self._at:
            self.close()
            self._answer, self._at = self._opened.enter_context(self._storage.streamed(self._path)), 0
        try:
            while self._at < start:
                self._advance(min(PIECE_BYTES, start - self._at))
            return b"".join(iter(lambda: self._advance(stop - self._at) if self._at < stop else b"", b""))
        except (OSError, HTTPException) as error:
            self.close()
            raise StoreUnavailableError(f"{self._path}: the connection broke at byte {self._at}: {error}") from error

    def _advance(self, num_bytes: int) -> bytes:
        assert self._answer is not None
        data = self._answer.read(num_bytes)
        if not data:
            raise HTTPException("the object ended early")
        self._at += len(data)
        return data
