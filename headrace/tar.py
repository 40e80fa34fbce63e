"""Tar members as bytes: reproducible headers to write, byte ranges to read.

Owns the one form of tar that Headrace writes (ustar, owner, mode and time fixed, so the same payloads give the same
bytes on any machine) and finding where each member of anybody's tar lies. It knows neither samples nor storage.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from headrace.errors import FormatError

_BLOCK_BYTES = tarfile.BLOCKSIZE
_MAX_NAME_BYTES = 100  # ustar's name field; longer names need extension headers that simple readers cut off
_MAX_MEMBER_BYTES = 8 << 30  # eleven octal digits
_COPY_BYTES = 1 << 20

# Name, mode, owner, group, size, time, checksum (counted as spaces), kind, link; magic and version; nothing else.
# Not left to tarfile: what it writes for the device changed from one Python to the next, and with it would every name.
_HEADER = b"".join(
    [
        b"%b",
        b"0000444\0" + 2 * b"0000000\0" + b"%011o\0" + b"00000000000\0",
        b"        " + b"0" + bytes(100),
        b"ustar\x0000" + bytes(247),
    ]
)


class Sink(Protocol):
    """Where an archive goes: a file, or whatever takes its bytes one after another and may keep them."""

    def write(self, data: bytes, /) -> object:
        """Append."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a tar: its payload is bytes `start` to `stop` of the archive."""

    name: str
    start: int
    stop: int


class TarWriter:
    """Writes members one after another to a file and keeps the archive's size and SHA-256.

    The bytes are those of `webdataset.TarWriter(mtime=0, encoder=False)` in ustar form: mode 0444, owner 0, time 0.
    """

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.num_bytes = 0

    def add(self, name: str, payload: bytes | BinaryIO, num_bytes: int) -> tuple[int, int]:
        """Append a member; a file payload is read from where it stands.

        Returns:
            The payload's half-open byte range in the archive.

        Raises:
            FormatError: the name does not fit a ustar header, the member is too large, or the payload is not as long
                as announced.
        """
        self._put(member_header(name, num_bytes))
        start = self.num_bytes
        if isinstance(payload, bytes):
            self._put(payload)
        else:
            while chunk := payload.read(_COPY_BYTES):
                self._put(chunk)
        if self.num_bytes - start != num_bytes:
            raise FormatError(f"{name}: {num_bytes} bytes announced, {self.num_bytes - start} written")
        self._put(bytes(-num_bytes % _BLOCK_BYTES))
        return start, start + num_bytes

    def finish(self) -> str:
        """Write the end of the archive (two empty blocks). Returns the archive's SHA-256 as hex."""
        self._put(bytes(2 * _BLOCK_BYTES))
        return self._digest.hexdigest()

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.num_bytes += len(data)


def member_header(name: str, num_bytes: int) -> bytes:
    """The 512-byte ustar header of a plain file (POSIX.1-1988): what `tarfile` makes, in a tenth of the time.

    Raises:
        FormatError: the name is longer than 100 bytes or the size does not fit eleven octal digits.
    """
    encoded = name.encode()
    if len(encoded) > _MAX_NAME_BYTES:
        raise FormatError(f"{name}: longer than {_MAX_NAME_BYTES} bytes; tar readers would cut it off")
    if num_bytes >= _MAX_MEMBER_BYTES:
        raise FormatError(
            f"{name}: {num_bytes} bytes do not fit a tar member; cut recordings with audio.segment_seconds"
        )
    header = _HEADER % (encoded.ljust(_MAX_NAME_BYTES, b"\0"), num_bytes)
    return header[:148] + b"%06o\0" % sum(header) + header[155:]


def read_members(file: BinaryIO, shard: str) -> Iterator[Member]:
    """The plain files of a tar, in order, from a seekable file; long names of the PAX and GNU forms are whole.

    Args:
        file: the archive.
        shard: its name, for messages.

    Raises:
        FormatError: not a tar, or cut off: a reader that trusts a truncated tar loses samples without noticing.
    """
    num_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    end = 0
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for info in archive:
                end = info.offset_data + info.size
                if end > num_bytes:
                    break
                if info.isreg():
                    yield Member(info.name, info.offset_data, end)
            file.seek(archive.offset)
            marker = file.read(_BLOCK_BYTES)
    except (tarfile.TarError, UnicodeDecodeError, ValueError) as error:
        raise FormatError(f"{shard}: not a readable tar ({error}); fetch or build it again") from error
    if end > num_bytes:
        raise FormatError(f"{shard}: cut off: a member ends at byte {end}, the file at {num_bytes}; fetch it again")
    # tarfile takes a damaged header, or none, for the end of the archive.
    if len(marker) < _BLOCK_BYTES:
        raise FormatError(f"{shard}: cut off: no end-of-archive mark at its end, byte {num_bytes}; fetch it again")
    if any(marker):
        raise FormatError(f"{shard}: damaged: neither a member nor the end at byte {archive.offset}; fetch it again")


def sha256_of(file: BinaryIO) -> str:
    """SHA-256 (hex) of a file from where it stands to its end."""
    digest = hashlib.sha256()
    while chunk := file.read(_COPY_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
