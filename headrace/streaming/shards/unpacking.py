"""Unpacking `.tar.gz` and `.tar.zst` piece by piece.

Owns that such a file may be several compressed ones end to end (`bgzip`, `pzstd`, `cat a b`), as `gzip` and `zstd`
themselves read them. It reads and writes nothing.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from headrace.errors import FormatError, IntegrityError

ZIP_SUFFIXES = (".tar.gz", ".tgz", ".tar.zst")
_MAGIC_BYTES = 4
_STEP_BYTES = 2 << 10  # as much as 2 MiB of gzip's (1,032 times) and 64 MiB of zstd's (4 bytes may say 128 KiB of one)
_JOINED_BYTES = 256 << 10  # small steps are handed on together


class _Member(Protocol):
    """One compressed stream of a file: `zlib`'s and `zstandard`'s decompression objects."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Unpacker:
    """Unpacks one file, given in order."""

    def __init__(self, name: str, begin: Callable[[], _Member], is_begin: Callable[[bytes], bool]) -> None:
        """Start before its first byte.

        Args:
            name: the file, for messages.
            begin: starts a member.
            is_begin: whether a member begins with these 4 bytes.
        """
        self._name = name
        self._begin = begin
        self._is_begin = is_begin
        self._member: _Member | None = begin()  # what is none is refused by it, in its own words
        self._rest = b""
        self._has_begun = False
        self._is_over = False

    def unpacked(self, data: bytes) -> Iterator[bytes]:
        """The next unpacked bytes, in pieces of at most 65 MiB however much there is in `data`.

        Raises:
            IntegrityError: the file is damaged, or not compressed so.
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
        """Say that the file has ended. Raises `IntegrityError` when that is in the midst of a member."""
        if self._member is not None and self._has_begun:
            raise IntegrityError(f"{self._name}: cut off: the compressed data has no end; fetch it again")

    def _steps(self, data: bytes) -> Iterator[bytes]:
        self._has_begun = self._has_begun or bool(data)
        try:
            for start in range(0, len(data), _STEP_BYTES):
                self._rest += data[start : start + _STEP_BYTES]
                while self._rest and self._in_member():
                    yield self._step()
        except (zlib.error, zstandard.ZstdError) as error:
            raise IntegrityError(
                f"{self._name}: damaged, or not compressed as its name says ({error}); fetch or build it again"
            ) from error

    def _in_member(self) -> bool:
        """Whether what is left is of a member, maybe a new one."""
        if self._member is None and not self._is_over:
            self._rest = self._rest.lstrip(b"\0")  # as gzip: zeros may fill the last block
            if len(self._rest) >= _MAGIC_BYTES:
                self._is_over = not self._is_begin(self._rest[:_MAGIC_BYTES])
                self._member = None if self._is_over else self._begin()
        if self._is_over:
            self._rest = b""  # as gzip: what else comes behind the last member is none of it
        return self._member is not None

    def _step(self) -> bytes:
        assert self._member is not None
        found = self._member.decompress(self._rest)
        self._rest = self._member.unused_data if self._member.eof else b""
        if self._member.eof:
            self._member = None
        return found


def unpacker_of(name: str) -> Unpacker:
    """What unpacks a compressed tar piece by piece, by its suffix. Raises `FormatError` for an unknown one."""
    if name.endswith((".tar.gz", ".tgz")):
        return Unpacker(name, lambda: zlib.decompressobj(wbits=31), lambda magic: magic[:2] == b"\x1f\x8b")
    if name.endswith(".tar.zst"):
        return Unpacker(name, lambda: zstandard.ZstdDecompressor().decompressobj(), _is_zst)
    raise FormatError(f"{name}: not a compressed tar ({', '.join(ZIP_SUFFIXES)})")


def _is_zst(magic: bytes) -> bool:
    """Whether a frame begins so, or one to be skipped, as `pzstd` writes them."""
    return magic == b"\x28\xb5\x2f\xfd" or magic[1:] == b"\x2a\x4d\x18"
