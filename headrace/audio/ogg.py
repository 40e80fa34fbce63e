"""Checks the pages of an Ogg file (RFC 3533), finds its chained streams, and gives a stream another serial number.

Nothing is decoded. A decoder skips pages that it cannot read. Without this check, damage would be missing audio.
"""

import io
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from headrace.audio.forms import AudioReject
from headrace.errors import AudioError

MAGIC = b"OggS"
_HEADER_BYTES = 27
_MOST_PAGE_BYTES = _HEADER_BYTES + 255 + 255 * 255
CONTINUED, _FIRST, LAST = 1, 2, 4  # bits of a page's flags
_SERIAL_AT, _CHECKSUM_AT = 14, 22
NO_GRANULE = -1  # no packet ends on the page
_CHUNK_BYTES = 1 << 18
_BITS_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def ogg_links(file: BinaryIO, num_bytes: int) -> list[tuple[int, int]]:
    """Byte ranges of the streams that are chained in an Ogg file, in order; most files have one.

    Every page is read and its checksum compared. Other bytes after the last page are accepted.

    Args:
        file: seekable; its position is moved.
        num_bytes: size of the file.

    Raises:
        AudioError: `undecodable` (a damaged page, missing pages, positions that go back, other bytes between pages),
            `truncated` (a page is truncated, or the last page is not marked as the last), or `unsupported`
            (interleaved streams).
    """
    links: list[tuple[int, int]] = []
    start, previous, granule = 0, None, 0
    for page in _pages(file, num_bytes):
        if previous is None:
            start, granule = page.start, 0
        _check_order(previous, page)
        if page.granule != NO_GRANULE:
            if page.granule < granule:
                raise _damaged(page.start, f"the stream's position goes back from {granule} to {page.granule}")
            granule = page.granule
        previous = page
        if page.flags & LAST:
            links.append((start, page.stop))
            previous = None
    if previous is not None or not links:
        raise AudioError(
            AudioReject.TRUNCATED,
            "Ogg truncated: its last page is not marked as the end of the stream; fetch it again, or, if it is "
            "complete, write the pages again (ffmpeg -i OLD -c copy NEW)",
        )
    return links


def set_serial(file: BinaryIO, serial: int) -> None:
    """Give all pages of an Ogg file of one stream another serial number, and compute their checksums again.

    Args:
        file: readable, writable and seekable; a whole, valid file. Its position is moved.
        serial: the number, 0 to 2**32 - 1.

    Raises:
        AudioError: the file is not a sequence of whole pages.
    """
    num_bytes = file.seek(0, io.SEEK_END)
    for place in list(_pages(file, num_bytes)):
        file.seek(place.start)
        page = file.read(place.stop - place.start)
        file.seek(place.start)
        file.write(changed_page(page, _SERIAL_AT, serial.to_bytes(4, "little")))


def changed_page(page: bytes, at: int, data: bytes) -> bytes:
    """A whole page with other bytes from `at` on, and with its new checksum."""
    changed = bytearray(page)
    changed[at : at + len(data)] = data
    changed[_CHECKSUM_AT : _CHECKSUM_AT + 4] = bytes(4)
    changed[_CHECKSUM_AT : _CHECKSUM_AT + 4] = page_checksum(bytes(changed)).to_bytes(4, "little")
    return bytes(changed)


def page_at(file: BinaryIO, start: int) -> tuple[bytes, int]:
    """The page at an offset of a valid file, and where its content begins."""
    file.seek(start)
    data = file.read(_MOST_PAGE_BYTES)
    _, size = _page(data, 0, start)
    return data[:size], _HEADER_BYTES + data[_HEADER_BYTES - 1]


def page_checksum(page: bytes) -> int:
    """CRC-32 of a page whose checksum field is zero: polynomial 0x04c11db7, start 0, bits not reflected.

    zlib's CRC-32 has the same polynomial with bits reflected, so the bits of input and result are reversed here; the
    start value cancels zlib's own inversions. This makes 1.4 GB/s; a table in numpy or Python is far slower.

    >>> page_checksum(bytes([128]))
    1762451694
    """
    reflected = zlib.crc32(page.translate(_BITS_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)


@dataclass(frozen=True, slots=True)
class OggPage:
    """The checked facts of a page: byte range, flags, position, stream, number, and whether a packet continues."""

    start: int
    stop: int
    flags: int
    granule: int
    serial: int
    sequence: int
    ends_within_packet: bool


def pages_of(data: bytes | bytearray, *, is_end: bool) -> list[OggPage]:
    """The whole pages of one stream that begin at the beginning of some bytes.

    Args:
        data: bytes of an Ogg file, from a page on.
        is_end: whether they go to the end of the file, behind whose last page may be other bytes.

    Raises:
        AudioError: as `ogg_links`, but not for a last page that is cut off, unless it is the end of the file.
    """
    pages: list[OggPage] = []
    try:
        for page in _pages(io.BytesIO(data), len(data)):
            if pages:
                _check_order(pages[-1], page)
            pages.append(page)
    except AudioError as error:
        if is_end or error.reason is not AudioReject.TRUNCATED:
            raise
    return pages


def _check_order(previous: OggPage | None, page: OggPage) -> None:
    """Raise `AudioError` if a page cannot follow `previous`, the stream's page before it (None at its start)."""
    if previous is None:
        if not page.flags & _FIRST:
            raise _damaged(page.start, "a stream begins without its first page")
    elif page.flags & _FIRST or page.serial != previous.serial:
        raise AudioError(
            AudioReject.UNSUPPORTED,
            f"Ogg with interleaved streams, or whose first stream is truncated (byte {page.start}); "
            "extract the audio (ffmpeg -i OLD -map 0:a:0 -c copy NEW)",
        )
    elif page.sequence != (previous.sequence + 1) & 0xFFFFFFFF:
        raise _damaged(page.start, f"page {page.sequence} follows page {previous.sequence}")
    elif bool(page.flags & CONTINUED) != previous.ends_within_packet:
        raise _damaged(page.start, "a packet has no beginning or no end")


def _pages(file: BinaryIO, num_bytes: int) -> Iterator[OggPage]:
    """All pages, up to the end of the file, or to bytes that are not a page and have no page after them.

    Raises:
        AudioError: see `ogg_links`.
    """
    start, data, at = 0, b"", 0  # data[at] is byte `start` of the file
    file.seek(0)
    while start < num_bytes:
        if len(data) - at < _MOST_PAGE_BYTES:
            data, at = data[at:] + file.read(_CHUNK_BYTES), 0
        if not data.startswith(MAGIC, at):
            if _has_page(file, data[at:]):
                raise _damaged(start, "bytes that are not a page")
            return
        page, size = _page(data, at, start)
        yield page
        start += size
        at += size


def _page(data: bytes, at: int, start: int) -> tuple[OggPage, int]:
    """The page at `data[at]`, which is at offset `start` of the file, and its size."""
    header = data[at : at + _HEADER_BYTES]
    lacings = data[at + _HEADER_BYTES : at + _HEADER_BYTES + header[-1]] if len(header) == _HEADER_BYTES else b""
    size = _HEADER_BYTES + len(lacings) + sum(lacings)
    page = data[at : at + size]
    if len(header) < _HEADER_BYTES or len(lacings) < header[-1] or len(page) < size:
        raise AudioError(
            AudioReject.TRUNCATED,
            f"truncated: the Ogg page at byte {start} promises at least {size} bytes, {len(data) - at} follow; "
            "fetch it again",
        )
    if page_checksum(page[:22] + bytes(4) + page[26:]) != int.from_bytes(page[22:26], "little"):
        raise _damaged(start, "a page's checksum is wrong")
    serial, sequence = int.from_bytes(page[14:18], "little"), int.from_bytes(page[18:22], "little")
    granule = int.from_bytes(page[6:14], "little", signed=True)
    return OggPage(start, start + size, page[5], granule, serial, sequence, lacings[-1:] == b"\xff"), size


def _has_page(file: BinaryIO, data: bytes) -> bool:
    """Whether a page begins anywhere in `data` or in the rest of the file."""
    kept = b""
    for chunk in itertools.chain([data], iter(lambda: file.read(_CHUNK_BYTES), b"")):
        if MAGIC in kept + chunk:
            return True
        kept = chunk[-3:]
    return False


def _damaged(start: int, found: str) -> AudioError:
    return AudioError(AudioReject.UNDECODABLE, f"damaged Ogg: {found} at byte {start}; fetch the recording again")
