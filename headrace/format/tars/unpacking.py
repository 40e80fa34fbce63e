"""Opens compressed tars (`.tar.gz`, `.tgz`, `.tar.zst`) and decompresses them.

`Unpacker` does it, from compressed bytes as they arrive. `opened_tar` gives a seekable file, and `unpacked_stream` a
file to read once from front to end. A file may be several compressed ones end to end (`bgzip`, `pzstd`, `cat a b`), and
other bytes after the last one are ignored, as by `gzip` itself.
"""

import hashlib
import io
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from headrace.errors import FormatError, IntegrityError
from headrace.format.tars.tar import GIT_LFS, IS_POINTER, sha256_of
from headrace.format.tars.tar_names import ZIP_SUFFIXES, is_packed_tar
from headrace.stores.storage import Storage

_GZIP, _ZSTD = (".gz", ".tgz"), (".zst", ".zstd")
_PACKED = (*_GZIP, *_ZSTD)
_MAGIC_BYTES = 4
_STEP_BYTES = 2 << 10  # unpack to at most 2 MiB of gzip (1,032 times) and 64 MiB of zstd (4 bytes: up to 128 KiB)
_JOINED_BYTES = 256 << 10  # output of small steps is joined up to this size
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenedTar:
    """A tar, open to be read in any order.

    Attributes:
        file: the tar, decompressed.
    """

    file: BinaryIO
    _stored_sha256: str = ""

    def stored_sha256(self) -> str:
        """SHA-256 (hex) of the bytes in the store; reads an uncompressed tar once, from front to end."""
        if self._stored_sha256:
            return self._stored_sha256
        self.file.seek(0)
        return sha256_of(self.file)


@contextmanager
def opened_tar(storage: Storage, shard: str) -> Iterator[OpenedTar]:
    """A tar of a store; a compressed one is decompressed into a temporary file first.

    Raises:
        IntegrityError: it is compressed, and damaged or cut off.
        NotFoundError: it does not exist.
    """
    with storage.open(shard) as stored:
        if not is_packed_tar(shard):
            yield OpenedTar(stored)
            return
        digest = hashlib.sha256()
        with tempfile.TemporaryFile() as unpacked:
            unpacked.writelines(_unpacked(stored, f"{storage.uri}/{shard}", digest.update))
            yield OpenedTar(cast("BinaryIO", unpacked), digest.hexdigest())


def unpacked_stream(file: BinaryIO, name: str) -> BinaryIO:
    """A tar to read once, decompressed if its name says that it is compressed.

    Reading a compressed one raises `IntegrityError` if it is damaged, or when it ends too early. tarfile's own
    decompression would read only the first of several compressed files end to end.

    Args:
        file: the tar as stored, at its beginning.
        name: its name, which messages show.
    """
    return (
        io.BufferedReader(_UnpackedFile(_unpacked(file, name)), _READ_BYTES) if name.lower().endswith(_PACKED) else file
    )


def _unpacked(file: BinaryIO, name: str, see: Callable[[bytes], object] = lambda piece: None) -> Iterator[bytes]:  # noqa: ARG005
    """The decompressed bytes of a file from here to its end; `see` is called with each piece of compressed ones."""
    unpacker = unpacker_of(name)
    while piece := file.read(_READ_BYTES):
        if piece.startswith(GIT_LFS):
            raise IntegrityError(f"{name}: {IS_POINTER}")
        see(piece)
        yield from unpacker.unpacked(piece)
    unpacker.finish()


class _UnpackedFile(io.RawIOBase):
    """A file of pieces that come one by one."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = memoryview(piece)
        num_bytes = min(len(buffer), len(self._left))
        buffer[:num_bytes] = self._left[:num_bytes]
        self._left = self._left[num_bytes:]
        return num_bytes


class _Decompressor(Protocol):
    """Decompresses one compressed file: the decompression objects of `zlib` and `zstandard`."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Unpacker:
    """Decompresses one tar whose bytes are given in order, piece by piece."""

    def __init__(self, name: str, begin: Callable[[], _Decompressor], is_begin: Callable[[bytes], bool]) -> None:
        """Start before the first byte.

        Args:
            name: the file, for messages.
            begin: makes a decompressor; called once for each of several compressed files end to end.
            is_begin: whether a compressed file begins with these 4 bytes.
        """
        self._name = name
        self._begin = begin
        self._is_begin = is_begin
        self._current: _Decompressor | None = begin()  # a file that is not compressed fails in it
        self._rest = b""
        self._has_begun = False
        self._is_over = False

    def unpacked(self, data: bytes) -> Iterator[bytes]:
        """The next decompressed bytes, in pieces of at most 65 MiB whatever the size of `data`.

        Raises:
            IntegrityError: the file is damaged, or not compressed in this way.
        """
        joined, num_bytes = [], 0
        for found in self._steps(data):
            joined.append(found)
            num_bytes += len(found)
            if num_bytes >= _JOINED_BYTES:
                yield b"".join(joined)
                joined, num_bytes = [], 0
        yield b"".join(joined)

    def finish(self) -> None:
        """Take note that the file has ended. Raises `IntegrityError` if it is cut off."""
        if self._current is not None and self._has_begun:
            raise IntegrityError(f"{self._name}: cut off: the compressed data has no end; fetch it again")

    def _steps(self, data: bytes) -> Iterator[bytes]:
        self._has_begun = self._has_begun or bool(data)
        try:
            for start in range(0, len(data), _STEP_BYTES):
                self._rest += data[start : start + _STEP_BYTES]
                while self._rest and self._has_compressed():
                    yield self._step()
        except (zlib.error, zstandard.ZstdError) as error:
            raise IntegrityError(
                f"{self._name}: damaged, or not compressed as its name says ({error}); fetch or build it again"
            ) from error

    def _has_compressed(self) -> bool:
        """Whether the bytes left belong to a compressed file, perhaps to the beginning of the next one."""
        if self._current is None and not self._is_over:
            self._rest = self._rest.lstrip(b"\0")  # as gzip does: zeros may fill the last block
            if len(self._rest) >= _MAGIC_BYTES:
                self._is_over = not self._is_begin(self._rest[:_MAGIC_BYTES])
                self._current = None if self._is_over else self._begin()
        if self._is_over:
            self._rest = b""  # as gzip does: other bytes after the last compressed file are ignored
        return self._current is not None

    def _step(self) -> bytes:
        assert self._current is not None
        found = self._current.decompress(self._rest)
        self._rest = self._current.unused_data if self._current.eof else b""
        if self._current.eof:
            self._current = None
        return found


def unpacker_of(name: str) -> Unpacker:
    """An `Unpacker` for a compressed tar, chosen by the suffix of its name. Raises `FormatError` for other suffixes."""
    if name.lower().endswith(_GZIP):
        return Unpacker(name, lambda: zlib.decompressobj(wbits=31), lambda magic: magic[:2] == b"\x1f\x8b")
    if name.lower().endswith(_ZSTD):
        return Unpacker(name, lambda: zstandard.ZstdDecompressor().decompressobj(), _begins_zstd)
    raise FormatError(f"{name}: not a compressed tar ({', '.join(ZIP_SUFFIXES)})")


def _begins_zstd(magic: bytes) -> bool:
    """Whether a zstd frame, or a skippable one (as `pzstd` writes), begins with these 4 bytes."""
    return magic == b"\x28\xb5\x2f\xfd" or magic[1:] == b"\x2a\x4d\x18"
