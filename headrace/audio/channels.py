"""Finds the order of a recording's channels, so that all formats give the order of WAV.

WAV and FLAC have front left, front right, center, low frequencies, back left, back right, front left and right of
center, back center, side left, side right. Ogg (RFC 7845, section 5.1.1.2) has an order of its own. CAF and AIFF name
the speaker of each channel in a chunk (Apple's `CoreAudioBaseTypes.h`); without it, their order is kept.
"""

import struct
from collections.abc import Sequence
from typing import BinaryIO

from headrace.audio.containers import Form, unsupported
from headrace.audio.headers import CAF, IFF, Layout, chunks
from headrace.audio.ogg_heads import num_speakers

_OGG = {3: (0, 2, 1), 5: (0, 2, 1, 3, 4), 6: (0, 2, 1, 5, 3, 4), 7: (0, 2, 1, 6, 5, 3, 4), 8: (0, 2, 1, 7, 5, 6, 3, 4)}
"""Number of channels → the channels of Ogg in the order of WAV."""
_LABELS = {
    name: label for label, name in enumerate(["L", "R", "C", "LFE", "Ls", "Rs", "Lc", "Rc", "Cs", "Lsd", "Rsd"], 1)
} | {
    "Rls": 33,
    "Rrs": 34,
}
_LAYOUTS = {
    108: "L R Ls Rs",
    109: "L R Ls Rs C",
    110: "L R Ls Rs C Cs",
    113: "L R C",
    114: "C L R",
    115: "L R C Cs",
    116: "C L R Cs",
    117: "L R C Ls Rs",
    118: "L R Ls Rs C",
    119: "L C R Ls Rs",
    120: "C L R Ls Rs",
    121: "L R C LFE Ls Rs",
    122: "L R Ls Rs C LFE",
    123: "L C R Ls Rs LFE",
    124: "C L R Ls Rs LFE",
    125: "L R C LFE Ls Rs Cs",
    126: "L R C LFE Ls Rs Lc Rc",
    127: "C Lc Rc L R Ls Rs LFE",
    128: "L R C LFE Ls Rs Rls Rrs",
    129: "L R Ls Rs C LFE Lc Rc",
    131: "L R Cs",
    132: "L R Ls Rs",
    133: "L R LFE",
    134: "L R LFE Cs",
    135: "L R LFE Ls Rs",
    136: "L R C LFE",
    137: "L R C LFE Cs",
    138: "L R Ls Rs LFE",
    139: "L R Ls Rs C Cs",
    140: "L R Ls Rs C Rls Rrs",
    141: "C L R Ls Rs Cs",
    142: "C L R Ls Rs Cs LFE",
    143: "C L R Ls Rs Rls Rrs",
    144: "C L R Ls Rs Rls Rrs Cs",
    148: "L R Ls Rs C Lc Rc",
    183: "C L R Ls Rs Rls Rrs LFE",
}
"""Upper half of a layout's tag → the labels of its channels; the lower half is their number."""
_BY_DESCRIPTIONS = 0
_MOST_LAYOUT_BYTES = 1 << 16
_CHUNKS = {b"caff": (CAF, b"chan"), b"FORM": (IFF, b"CHAN")}
_WITHOUT_SPEAKERS = (
    1,
    107,
    147,
    0xFFFF,
)  # a bitmap (in the order of WAV), ambisonic B-format, discrete channels, unknown


def wav_order(file: BinaryIO, form: Form, num_bytes: int) -> tuple[int, ...]:
    """The channels of a recording in the order of WAV; empty if no speakers are named.

    Args:
        file: the recording; its position is moved.
        form: its form.
        num_bytes: size of the file.

    Raises:
        AudioError: `unsupported`, for a layout of CAF or AIFF that is not known.
    """
    if form is Form.OGG:
        return _OGG.get(num_speakers(file), ())
    file.seek(0)
    layout, name = _CHUNKS.get(file.read(4), (None, b""))
    return () if layout is None else _sorted(_labels(_chunk(file, num_bytes, layout, name)))


def _chunk(file: BinaryIO, num_bytes: int, layout: Layout, wanted: bytes) -> bytes:
    """The content of a chunk; empty without it."""
    for name, start, size in chunks(file, num_bytes, layout):
        if name == wanted:
            file.seek(start)
            return file.read(min(size, _MOST_LAYOUT_BYTES))
    return b""


def _labels(chunk: bytes) -> Sequence[int]:
    """The label of each channel, from an `AudioChannelLayout`; empty without speakers."""
    if len(chunk) < 12:
        return ()
    tag, _, _ = struct.unpack(">III", chunk[:12])
    kind, num_channels = divmod(tag, 1 << 16)
    if tag == _BY_DESCRIPTIONS:
        return [label for label, *_ in struct.iter_unpack(">I16x", chunk[12 : 12 + len(chunk[12:]) // 20 * 20])]
    if num_channels <= 2 or kind in _WITHOUT_SPEAKERS:
        return ()
    if kind not in _LAYOUTS:
        raise unsupported(
            f"{num_channels} channels with the layout 0x{tag:08x}", "write it with another one (ffmpeg -i OLD NEW.wav)"
        )
    return [_LABELS[name] for name in _LAYOUTS[kind].split()]


def _sorted(labels: Sequence[int]) -> tuple[int, ...]:
    """The channels in the order of their labels, which is that of WAV; rear surround channels come last."""
    return tuple(sorted(range(len(labels)), key=lambda channel: labels[channel]))
