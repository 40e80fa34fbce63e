"""Counts the frames of packets on Ogg pages, without decoding them: of Opus (RFC 6716) and Vorbis (Vorbis I).

A page states how many frames end on it. Some writers cut streams without counting them again; then a decoder's frames
and the pages' positions are apart, and no part of the file may be found by positions.
"""

import itertools
from collections.abc import Iterator

from headrace.audio.ogg import CONTINUED, LAST, NO_GRANULE, pages_of
from headrace.audio.ogg_heads import OPUS_HEAD
from headrace.errors import AudioError

_FLAGS_AT = 5
_LACINGS_AT = 27  # in a page; their number is before them
_VORBIS_HEAD, _VORBIS_SETUP = b"\x01vorbis", b"\x05vorbis"
_BLOCK_SIZES_AT = 28  # in the first packet of Vorbis: exponents of two
_MODE_BITS = 41  # of the flag of long blocks, 16 and 16 zeros, and the number of a mapping
_MODE_ZEROS, _MOST_MAPPINGS = (1 << 33) - 2, 64


def counts_from_zero(data: bytes) -> bool | None:
    """Whether the first position of a stream is the number of frames before it; None if more of it has to be known.

    Args:
        data: a file of Vorbis or Opus from its beginning on.
    """
    try:
        pages = pages_of(data, is_end=False)
    except AudioError:
        return False
    first = next((page for page in pages if page.granule not in {0, NO_GRANULE}), None)
    if first is None:
        return None
    head, page = data[: first.start], data[first.start : first.stop]
    if first.flags & LAST:  # its end is cut
        return True
    return first.granule == (opus_samples(page) if OPUS_HEAD in head else _vorbis_frames(head, page))


def opus_samples(page: bytes) -> int:
    """Samples at 48 kHz of the packets that end on a page of Opus, which begins with a packet (RFC 6716, 3.1)."""
    return sum(map(_opus_samples, _packets(page)))


def has_speech_mode(page: bytes) -> bool:
    """Whether a page of Opus begins with a packet that SILK has a part in (RFC 6716, table 2)."""
    at = _LACINGS_AT + page[_LACINGS_AT - 1]
    return not page[_FLAGS_AT] & CONTINUED and at < len(page) and page[at] >> 3 < 16


def _packets(page: bytes) -> Iterator[bytes]:
    """The packets that end on a page, which begins with a packet."""
    lacings = page[_LACINGS_AT : _LACINGS_AT + page[_LACINGS_AT - 1]]
    begin = stop = _LACINGS_AT + len(lacings)
    for lacing in lacings:
        stop += lacing
        if lacing < 255:
            yield page[begin:stop]
            begin = stop


def _opus_samples(packet: bytes) -> int:
    """Samples at 48 kHz of a packet, from its first bytes."""
    if not packet:
        return 0
    mode, code = packet[0] >> 3, packet[0] & 3
    if mode < 12:
        frame = (480, 960, 1920, 2880)[mode & 3]
    else:  # hybrid: 10 and 20 ms; CELT: 2.5, 5, 10 and 20 ms
        frame = (480, 960)[mode & 1] if mode < 16 else (120, 240, 480, 960)[mode & 3]
    return frame * ((1, 2, 2)[code] if code < 3 else packet[1] & 63 if len(packet) > 1 else 0)


def _vorbis_frames(head: bytes, page: bytes) -> int:
    """Frames of the first page of Vorbis with audio: a quarter of each two blocks that overlap (Vorbis I, 4.3.8)."""
    exponents = head[head.index(_VORBIS_HEAD) + _BLOCK_SIZES_AT] if _VORBIS_HEAD in head else 0
    sizes, long_modes = (1 << (exponents & 15), 1 << (exponents >> 4)), _long_modes(head)
    mask = (1 << (len(long_modes) - 1).bit_length()) - 1 if long_modes else 0
    blocks = []
    for packet in _packets(page):
        number = (packet[0] >> 1) & mask if packet else 0
        if packet and not packet[0] & 1 and number < len(long_modes):  # others are no audio
            blocks.append(sizes[long_modes[number]])
    return sum(before // 4 + block // 4 for before, block in itertools.pairwise(blocks))


def _long_modes(head: bytes) -> list[bool]:
    """Which modes have long blocks. The list is the end of the setup packet, which is read backwards.

    What is before it has no fixed place. Of several lists that fit, the longest one is right.
    """
    pages = pages_of(head, is_end=False)
    lacings = [head[page.start + _LACINGS_AT :][: head[page.start + _LACINGS_AT - 1]] for page in pages]
    content = b"".join(
        head[page.start + _LACINGS_AT + len(sizes) : page.stop] for page, sizes in zip(pages, lacings, strict=True)
    )
    bits = int.from_bytes(content[content.rfind(_VORBIS_SETUP) :], "little")
    end, modes, found = bits.bit_length() - 1, list[bool](), list[bool]()  # a one is behind the last mode
    while end >= _MODE_BITS + 6:
        end -= _MODE_BITS
        mode = (bits >> end) & ((1 << _MODE_BITS) - 1)
        if mode & _MODE_ZEROS or mode >> 33 >= _MOST_MAPPINGS:
            break
        modes.insert(0, bool(mode & 1))
        if (bits >> (end - 6)) & 63 == len(modes) - 1:
            found = list(modes)
    return found
