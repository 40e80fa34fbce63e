"""Writes tars with reproducible bytes, and finds the byte range of each member of a tar.

Headrace writes one form of tar: ustar with fixed owner, mode and time, so that the same payloads give the same bytes on
every machine. Reading takes tars of any writer, and rejects those in which samples could be lost unnoticed.
"""

import contextlib
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Protocol, Self

from headrace import checksums
from headrace.errors import FormatError
from headrace.format.tars.tar_members import Member, MemberFinder

_BLOCK_BYTES = tarfile.BLOCKSIZE
_MAX_NAME_BYTES = 100  # ustar's name field; longer names need extension headers that simple readers cut off
_MAX_MEMBER_BYTES = 8 << 30  # eleven octal digits
_COPY_BYTES = 1 << 20
_SMALL_BYTES = 16 << 10
_MAX_EXTENSION_BYTES = 1 << 20  # of a long name or of PAX records, which tarfile reads before they can be checked
_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
# A header that says all of itself: a plain file, a name in ASCII, numbers in octal digits; no link, no prefix.
_PLAIN_HEADER = re.compile(
    rb"(?=(?s:.{512}))[ -~]{1,100}(?<!/)\0*"
    rb"(?:[0-7]{7}[ \0]){3}(?P<size>[0-7]{11})[ \0][0-7]{11}[ \0](?P<sum>[0-7]{6})\0 0\0{100}"
    rb"ustar\x0000(?s:.{64})[0-7\0]{16}\0{167}"
)
_SUM = slice(148, 156)
_COMPRESSED = {b"\x1f\x8b": ".tar.gz", b"\x28\xb5": ".tar.zst"}  # the first two bytes
GIT_LFS = b"version https://git-lfs"
"""The first bytes of a pointer of git-lfs, which a clone has in place of a tar."""
IS_POINTER = "a pointer of git-lfs, in place of which `git lfs pull` puts the tar"
_BEHIND_BYTES = 16 << 20  # searched after the end of the archive; more than any padding

# Name, mode, owner, group, size, time, checksum (counted as spaces), kind, link; magic and version; nothing else.
# Not made by tarfile, whose bytes for the device differ between versions of Python: every shard would get another name.
_HEADER = b"".join(
    [
        b"%b",
        b"0000444\0" + 2 * b"0000000\0" + b"%011o\0" + b"00000000000\0",
        b"        " + b"0" + bytes(100),
        b"ustar\x0000" + bytes(247),
    ]
)


class Sink(Protocol):
    """Destination of an archive: a file, or another object that takes its bytes in order."""

    def write(self, data: bytes, /) -> object:
        """Append."""


class WrittenPayload(NamedTuple):
    """A payload that was written to an archive: its half-open byte range and its CRC-32."""

    start: int
    stop: int
    crc32: int


class TarWriter:
    """Writes members one after another to a file and keeps the archive's size and SHA-256.

    The bytes are those of `webdataset.TarWriter(mtime=0, encoder=False)` in ustar form: mode 0444, owner 0, time 0.
    """

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.num_bytes = 0

    def add(
        self, name: str, payload: bytes | BinaryIO, num_bytes: int, known_crc32: int | None = None
    ) -> WrittenPayload:
        """Append a member; a payload that is a file is read from its current position.

        Args:
            name: name of the member.
            payload: its bytes.
            num_bytes: number of its bytes.
            known_crc32: its CRC-32, if that need not be computed.

        Raises:
            FormatError: the name does not fit a ustar header, the member is too large, or the payload does not have
                `num_bytes` bytes.
        """
        header = member_header(name, num_bytes)
        if isinstance(payload, bytes) and len(payload) == num_bytes < _SMALL_BYTES:  # one piece costs less than three
            start = self.num_bytes + len(header)
            self._put(b"".join((header, payload, bytes(-num_bytes % _BLOCK_BYTES))))
            return WrittenPayload(
                start, start + num_bytes, checksums.crc32(payload) if known_crc32 is None else known_crc32
            )
        self._put(header)
        start, crc32 = self.num_bytes, 0
        for piece in [payload] if isinstance(payload, bytes) else _pieces(payload):
            if known_crc32 is None:
                crc32 = checksums.crc32(piece, crc32)
            self._put(piece)
        if self.num_bytes - start != num_bytes:
            raise FormatError(f"{name}: {num_bytes} bytes expected, {self.num_bytes - start} written")
        self._put(bytes(-num_bytes % _BLOCK_BYTES))
        return WrittenPayload(start, start + num_bytes, crc32 if known_crc32 is None else known_crc32)

    def finish(self) -> str:
        """Write the end of the archive (two empty blocks). Returns the archive's SHA-256 as hex."""
        self._put(bytes(2 * _BLOCK_BYTES))
        return self._digest.hexdigest()

    def lengthen(self) -> str:
        """Write one more empty block after the end. Returns the SHA-256 (hex) of the longer archive."""
        self._put(bytes(_BLOCK_BYTES))
        return self._digest.hexdigest()

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.num_bytes += len(data)


def member_header(name: str, num_bytes: int) -> bytes:
    """The 512-byte ustar header of a plain file (POSIX.1-1988), made in a tenth of the time of `tarfile`.

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
    return header[:148] + b"%06o\0" % _sum(header) + header[155:]


def _sum(header: bytes) -> int:
    """The sum of a header's bytes, in a sixth of the time of `sum`.

    The low half of an Adler-32 (RFC 1950, section 8.2) is one more than the sum of the bytes, modulo 65,521; the sum of
    half a header is less.
    """
    return (zlib.adler32(header[:256]) & 0xFFFF) + (zlib.adler32(header[256:]) & 0xFFFF) - 2


class TarHeader(tarfile.TarInfo):
    """A header of a tar of any writer. A dangerous one raises an error before tarfile acts on it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """See `tarfile.TarInfo.frombuf`.

        Raises:
            tarfile.ReadError: a negative size, a name or record of a mebibyte, a sparse file, or a pointer of git-lfs.
        """
        if buf.startswith(GIT_LFS):
            raise tarfile.ReadError(IS_POINTER)
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0:
            raise tarfile.ReadError(f"{header.name!r} has a size of {header.size} bytes")
        if header.type in _EXTENSIONS and header.size > _MAX_EXTENSION_BYTES:
            raise tarfile.ReadError(f"a name or record of {header.size} bytes, at most {_MAX_EXTENSION_BYTES} expected")
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(sparse_fault(header.name))
        return header


def sparse_fault(name: str) -> str:
    """The message about a sparse file in a tar, whose bytes are not stored as they are."""
    return f"{name!r} is a sparse file; pack it as it is, without tar --sparse"


def check_member(info: tarfile.TarInfo) -> None:
    """Reject a header after its PAX records were applied.

    Raises:
        tarfile.ReadError: a negative size, with which tarfile would read backwards, or a sparse file.
    """
    if info.size < 0:
        raise tarfile.ReadError(f"{info.name!r} has a size of {info.size} bytes")
    if info.issparse():
        raise tarfile.ReadError(sparse_fault(info.name))


def check_end(read: Callable[[int], bytes]) -> None:
    """Reject an archive that follows the end of another one: tar readers would not see its files.

    Args:
        read: reads this many bytes after the first block of the end-of-archive mark; fewer at the end of the file.

    Raises:
        tarfile.ReadError: another archive follows.
    """
    for _ in range(_BEHIND_BYTES // _BLOCK_BYTES):
        block = read(_BLOCK_BYTES)
        if len(block) < _BLOCK_BYTES:
            return
        if any(block):
            with contextlib.suppress(tarfile.HeaderError):
                found = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
                raise tarfile.ReadError(
                    f"another archive follows its end, with {found.name!r}: unpack both (tar --ignore-zeros) and pack "
                    "them as one"
                )
            return


def read_members(file: BinaryIO, shard: str) -> Iterator[Member]:
    """The members of a tar that are not folders, in order; long names of the PAX and GNU forms are complete.

    A hard link has the bytes of the file that it leads to. A symbolic link, a device or the like has a fault.

    Args:
        file: the tar, seekable.
        shard: its name, for messages.

    Raises:
        FormatError: not a tar, damaged, or cut off: samples would be lost unnoticed.
    """
    num_bytes = file.seek(0, io.SEEK_END)
    finder, start = MemberFinder(), 0
    for member in _plain_members(file, num_bytes):
        yield finder.noted(member)
        start = member.stop + -member.stop % _BLOCK_BYTES
    yield from _members_from(start, file, shard, finder)


def _members_from(start: int, file: BinaryIO, shard: str, finder: MemberFinder) -> Iterator[Member]:
    """The members of a tar from the header at byte `start`; its end is checked. See `read_members`."""
    num_bytes, end = file.seek(0, io.SEEK_END), 0
    file.seek(start)
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=TarHeader) as archive:
            for info in archive:
                check_member(info)
                end = info.offset_data + (0 if info.islnk() else info.size)  # a link's size is that of its file
                if end > num_bytes:
                    break
                if (member := finder.member(info)) is not None:
                    yield member
            file.seek(archive.offset)
            marker = file.read(_BLOCK_BYTES)
            if not any(marker) and end <= num_bytes:
                check_end(file.read)
    except (tarfile.TarError, UnicodeDecodeError, ValueError, RecursionError) as error:
        file.seek(0)
        if suffix := _COMPRESSED.get(file.read(2)):
            raise FormatError(f"{shard}: is compressed; give its name the ending {suffix}, or unpack it") from error
        raise FormatError(f"{shard}: not a readable tar ({error}); fetch or build it again") from error
    if end > num_bytes:
        raise FormatError(f"{shard}: cut off: a member ends at byte {end}, the file at {num_bytes}; fetch it again")
    # tarfile takes a damaged header, or none, for the end of the archive.
    if len(marker) < _BLOCK_BYTES:
        raise FormatError(f"{shard}: cut off: no end-of-archive mark at its end, byte {num_bytes}; fetch it again")
    if any(marker):
        raise FormatError(
            f"{shard}: damaged: neither a member nor the end begins at byte {archive.offset}; fetch it again"
        )


def _plain_members(file: BinaryIO, num_bytes: int) -> Iterator[Member]:
    """The whole members before the first header that is not plain, in a quarter of the time of `tarfile`."""
    start = 0
    while True:
        file.seek(start)
        header = file.read(_BLOCK_BYTES)
        found = _PLAIN_HEADER.fullmatch(header)
        if found is None or _sum(header) - sum(header[_SUM]) + 8 * ord(" ") != int(found["sum"], 8):
            return
        start += _BLOCK_BYTES
        if (stop := start + int(found["size"], 8)) > num_bytes:
            return
        yield Member(header[:_MAX_NAME_BYTES].rstrip(b"\0").decode(), start, stop)
        start = stop + -stop % _BLOCK_BYTES


def sha256_of(file: BinaryIO) -> str:
    """SHA-256 (hex) of a file from its current position to its end."""
    digest = hashlib.sha256()
    for piece in _pieces(file):
        digest.update(piece)
    return digest.hexdigest()


def payload(file: BinaryIO, span: tuple[int, int]) -> bytes:
    """The bytes of a half-open range of a seekable file, such as one field of an open tar."""
    file.seek(span[0])
    return file.read(span[1] - span[0])


def crc32_of(file: BinaryIO, span: tuple[int, int]) -> int:
    """CRC-32 of a half-open byte range of a seekable file."""
    file.seek(span[0])
    crc32, num_left = 0, span[1] - span[0]
    while num_left and (piece := file.read(min(num_left, _COPY_BYTES))):
        crc32 = checksums.crc32(piece, crc32)
        num_left -= len(piece)
    return crc32


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file from its current position to its end."""
    while piece := file.read(_COPY_BYTES):
        yield piece
