"""Reads the first packet of each stream of an Ogg file: which coding it is, and the sample rate that Opus names.

libsndfile decodes Opus at the rate in the header, or at the next one above it that Opus has. The rate is only a note
about the input of the encoder (RFC 7845, section 5.1), and some writers leave it at 0. A rate that Opus does not have
becomes 48 kHz here, the rate at which Opus always decodes.
"""

from collections.abc import Sequence
from typing import BinaryIO

from headrace.audio.containers import unsupported
from headrace.audio.forms import OPUS_RATES_HZ
from headrace.audio.ogg import changed_page, page_at
from headrace.audio.parts import FilePart

OPUS_HEAD = b"OpusHead"
_VORBIS_HEAD = b"\x01vorbis"
_FULL_RATE_HZ = 48_000
_RATE_AT = 12  # in the packet
_CHANNELS_AT = 9
_MAPPING_AT = 18
_MAPPED_AS_VORBIS = 1
_VORBIS_CHANNELS_AT = 11
_OPUS_BYTES, _VORBIS_BYTES = 19, 30  # of the shortest first packets
_EXTRACT = "extract the audio (ffmpeg -i OLD -map 0:a:0 -c copy NEW)"
_REJECTED = {
    b"\x7fFLAC": ("Ogg FLAC", "write it as plain FLAC (ffmpeg -i OLD -c copy NEW.flac)"),
    b"Speex": ("Ogg Speex", "decode it to FLAC first (ffmpeg -i OLD NEW.flac)"),
    b"\x80theora": ("Ogg video", _EXTRACT),
    b"fishead": ("Ogg with a skeleton", _EXTRACT),
}


def parts_of(file: BinaryIO, links: Sequence[tuple[int, int]]) -> list[FilePart]:
    """The streams of an Ogg file, to be decoded one after another; none if libsndfile reads the file whole.

    Args:
        file: seekable; its position is moved.
        links: byte ranges of the streams, whose pages are valid (`ogg.ogg_links`).

    Raises:
        AudioError: `unsupported`: a stream is neither Opus nor Vorbis.
    """
    parts = [_part(file, link) for link in links]
    return parts if len(parts) > 1 or parts[0].head else []


def num_speakers(file: BinaryIO) -> int:
    """Channels of an Ogg file, each for a speaker; 0 for Opus whose channels are something else."""
    page, packet_at = page_at(file, 0)
    if not page.startswith(OPUS_HEAD, packet_at):
        return page[packet_at + _VORBIS_CHANNELS_AT]
    return page[packet_at + _CHANNELS_AT] if page[packet_at + _MAPPING_AT] == _MAPPED_AS_VORBIS else 0


def _part(file: BinaryIO, link: tuple[int, int]) -> FilePart:
    """A stream; of Opus with a rate that Opus does not have, with another first page."""
    start, stop = link
    page, packet_at = page_at(file, start)
    packet = page[packet_at:]
    if packet.startswith(_VORBIS_HEAD) and len(packet) >= _VORBIS_BYTES:
        return FilePart((link,))
    if not packet.startswith(OPUS_HEAD) or len(packet) < _OPUS_BYTES:
        names = (named for mark, named in _REJECTED.items() if packet.startswith(mark))
        raise unsupported(*next(names, (f"Ogg with a stream that begins with {packet[:8]!r}", _EXTRACT)))
    rate_hz = int.from_bytes(packet[_RATE_AT : _RATE_AT + 4], "little")
    if rate_hz in OPUS_RATES_HZ or OPUS_RATES_HZ[-2] < rate_hz <= _FULL_RATE_HZ:  # libsndfile takes these as 48 kHz
        return FilePart((link,))
    head = changed_page(page, packet_at + _RATE_AT, _FULL_RATE_HZ.to_bytes(4, "little"))
    return FilePart(((start + len(page), stop),), head=head)
