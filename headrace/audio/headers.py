"""Checks that an audio file is as long as its headers say, without decoding it.

libsndfile opens a truncated file without an error, and reports the frames that are left. It also ignores audio after
the length in a header that was not updated when the recording ended, or that cannot count more than 4 GB. The check
finds both. It reads headers only; damaged audio is not found. A length that a streaming writer left open (0, -1, or
close to the largest possible number) is not checked.

Behind the audio there may be chunks, tags (ID3, APE, lyrics), and up to 4,096 zeros that pad the file to a sector. Any
other byte could be audio that the header does not count.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from headrace.audio.containers import unsupported
from headrace.audio.forms import AudioReject
from headrace.audio.libav_headers import asf_end, matroska_end, mp4_end
from headrace.errors import AudioError

_OPEN_ENDS = (1 << 31, 1 << 32, 1 << 63, 1 << 64)  # ffmpeg writes -1, sox and arecord about 2**31
_OPEN_MARGIN_BYTES = 1 << 16
_MAX_CHUNKS = 4096  # more chunks than this are noise
_PADDING_BYTES = 4096
_TAGS = (b"TAG", b"ID3\2", b"ID3\3", b"ID3\4", b"APETAGEX", b"LYRICSBEGIN")
_WAV_CODINGS = {0x01, 0x02, 0x03, 0x06, 0x07, 0x11, 0x31, 0x38, 0x40, 0x45, 0x64, 0xFFFE}  # that libsndfile reads
_SPHERE_HEAD_BYTES = 16 << 10
_SPHERE_FIELD = re.compile(rb"^(\w+) -(?:i|s\d+) +(.*?) *$", re.MULTILINE)
_SPHERE_NUMBER = re.compile(r"[0-9]{1,18}")
_SPHERE_CODINGS = ("", "pcm", "alaw", "ulaw", "mu-law")
_FTYP = b"ftyp"  # behind its size
_MATLAB_BYTES = (8, 4, 4, 2, 2, 1)  # of a number, by the third digit of its type

Unknown = Callable[[int], bool]
"""Whether a length means that its writer did not know it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a container's chunks.

    Attributes:
        first_byte: offset of the first chunk.
        header: `struct` format of a chunk's name and size.
        align: chunks begin at multiples of this, in bytes.
        counts_header: whether a chunk's size includes its header.
    """

    first_byte: int
    header: str
    align: int
    counts_header: bool = False


IFF = Layout(12, ">4sI", 2)
CAF = Layout(8, ">4sQ", 1)
_W64 = Layout(40, "<16sQ", 8, counts_header=True)


def check_whole(file: BinaryIO, num_bytes: int) -> None:
    """Check that a file is neither shorter nor longer than its container says. Containers without a length pass.

    Raises:
        AudioError: `truncated` or `undecodable`, with the expected and the found number of bytes; `unsupported`, for a
            coding that is not read.
    """
    _check(file, num_bytes, is_open)


def check_closed(file: BinaryIO, num_bytes: int) -> None:
    """Check that no audio follows a length of 0, which a recorder writes first and corrects at its end.

    Raises:
        AudioError: `undecodable`: there is audio, or anything else that is not in a chunk.
    """
    _check(file, num_bytes, lambda size: False)  # noqa: ARG005 - every length counts


def _check(file: BinaryIO, num_bytes: int, unknown: Unknown) -> None:
    file.seek(0)
    head = file.read(64)
    for magic, promised in _PROMISES:
        if head.startswith(magic) or (magic == _FTYP and head[4:8] == magic):
            expected = promised(file, num_bytes, unknown)
            if expected is not None and expected > num_bytes:
                raise AudioError(
                    AudioReject.TRUNCATED,
                    f"truncated: its header promises at least {expected} bytes, the file has {num_bytes}; fetch it "
                    "again",
                )
            return


def _riff(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the data chunk in RIFF, RIFX and RF64 (EBU Tech 3306); None if the length is open."""
    file.seek(0)
    order = ">" if file.read(4) == b"RIFX" else "<"
    size64 = None
    layout = Layout(12, order + "4sI", 2)
    for name, start, size in chunks(file, num_bytes, layout):
        if name == b"fmt ":
            file.seek(start)
            _check_coding(_unpack(order + "H", file))
        elif name == b"ds64":
            file.seek(start + 8)
            size64 = _unpack("<Q", file)
        elif name == b"data":
            promised = size64 if size == 0xFFFFFFFF and size64 is not None else size
            return None if unknown(promised) else _end(file, num_bytes, start + promised, layout)
        if start + size > num_bytes:
            return start + size
    return None


def _check_coding(coding: int | None) -> None:
    """Raise `AudioError` for a coding of WAV that libsndfile does not read."""
    if coding is not None and coding not in _WAV_CODINGS:
        raise unsupported(f"WAV with the coding 0x{coding:04x}", "decode it first (ffmpeg -i OLD NEW.flac)")


def _w64(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the data chunk in Sony Wave64, whose chunks have 16-byte names; None if the length is open."""
    for name, start, size in chunks(file, num_bytes, _W64):
        if name.startswith(b"data"):
            return None if unknown(size) else _end(file, num_bytes, start + size, _W64)
        if start + size > num_bytes:
            return start + size
    return None


def _iff(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the audio in AIFF and AIFF-C (SSND), and in Amiga's SVX (BODY); None if the length is open."""
    for name, start, size in chunks(file, num_bytes, IFF):
        if name in {b"SSND", b"BODY"}:
            num_fields = 8 if name == b"SSND" else 0  # two fields come first
            is_unknown = unknown(size) or unknown(size - num_fields)
            return None if is_unknown else _end(file, num_bytes, start + size, IFF)
        if start + size > num_bytes:
            return start + size
    return None


def _caf(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the data chunk in Apple's Core Audio Format; None if the length is open."""
    for name, start, size in chunks(file, num_bytes, CAF):
        if name == b"data":
            return None if unknown(size) else _end(file, num_bytes, start + size, CAF)
        if start + size > num_bytes:
            return start + size
    return None


def _au(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the audio in Sun's AU, in either byte order; None if the length is open."""
    file.seek(0)
    order = ">" if file.read(4) == b".snd" else "<"
    words = file.read(8)
    if len(words) < 8:
        return None
    header, size = struct.unpack(order + "II", words)
    return None if unknown(size) else _end(file, num_bytes, header + size, None)


def _sphere(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the audio in NIST SPHERE, which states its frames in text; None if it states none.

    Raises:
        AudioError: `unsupported`, for compressed audio, and without a length.
    """
    file.seek(0)
    head = file.read(_SPHERE_HEAD_BYTES).partition(b"end_head")[0]
    fields = {name.decode(): value.decode("ascii", "replace") for name, value in _SPHERE_FIELD.findall(head)}
    coding = fields.get("sample_coding", "")
    if coding not in _SPHERE_CODINGS:
        raise unsupported(f"SPHERE with the coding {coding!r}", "unpack it first (sph2pipe -f wav OLD NEW.wav)")
    lines = head.decode("ascii", "replace").split("\n", 2)
    numbers = [lines[1].strip() if len(lines) > 1 else ""]  # size of the header
    numbers += [fields.get(name, "") for name in ("sample_count", "channel_count", "sample_n_bytes")]
    if not all(_SPHERE_NUMBER.fullmatch(number) for number in numbers):
        raise unsupported("SPHERE whose header lacks the length", "write it again (sox OLD NEW.wav)")
    start, frames, channels, width = map(int, numbers)
    return None if unknown(frames) else _end(file, num_bytes, start + frames * channels * width, None)


def _avr(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the audio in Audio Visual Research's format; None if the length is open."""
    file.seek(12)
    head = file.read(18)
    if len(head) < 18:
        return None
    is_stereo, bits, frames = struct.unpack(">HH10xI", head)
    num_samples = frames * (1 + (is_stereo & 1))
    return None if unknown(frames) else _end(file, num_bytes, 128 + num_samples * (bits // 8), None)


def _matlab(file: BinaryIO, num_bytes: int, unknown: Unknown) -> int | None:
    """End of the second matrix in MATLAB 4, after the one with the sample rate; None if it is empty."""
    at = size = 0
    for _ in range(2):
        if at > num_bytes:
            return at
        file.seek(at)
        head = file.read(20)
        if len(head) < 20:
            return None
        order = ">" if head[0] == head[1] == 0 and head[2:4] != b"\0\0" else "<"
        kind, rows, columns, is_complex, name_bytes = struct.unpack(order + "5I", head)
        size = rows * columns * (1 + is_complex) * _MATLAB_BYTES[kind // 10 % 10 % 6]
        at += 20 + name_bytes + size
    return None if unknown(size) else _end(file, num_bytes, at, None)


def _end(file: BinaryIO, num_bytes: int, audio_stop: int, layout: Layout | None) -> int:
    """End of what the headers promise: of the audio, or of a chunk after it.

    Raises:
        AudioError: `undecodable`: bytes after the audio may be audio.
    """
    if (at := audio_stop) >= num_bytes:
        return at
    if layout is not None:
        padded = min(at + -at % layout.align, num_bytes)
        at = max(_after_chunks(file, num_bytes, layout, start) for start in {padded, at})  # some writers do not pad
    if at < num_bytes and not _is_rest(file, at, num_bytes):
        raise AudioError(
            AudioReject.UNDECODABLE,
            f"its header promises audio up to byte {audio_stop}, and {num_bytes - at} bytes follow that are not in a "
            "chunk: perhaps the header was not updated when the recording ended; repair it (ffmpeg -ignore_length 1 "
            "-i OLD NEW, or sox --ignore-length OLD NEW)",
        )
    return at


def _after_chunks(file: BinaryIO, num_bytes: int, layout: Layout, at: int) -> int:
    """End of the chunks that follow each other from a byte on; the byte itself if there are none."""
    for name, start, size in chunks(file, num_bytes, replace(layout, first_byte=at)):
        if any(tag.startswith(name) or name.startswith(tag) for tag in _TAGS):
            break
        at = start + size
        if at < num_bytes:
            at = min(at + -at % layout.align, num_bytes)
    return at


def _is_rest(file: BinaryIO, at: int, num_bytes: int) -> bool:
    """Whether the last bytes of a file, from `at` on, are no audio: padding, or a tag."""
    file.seek(at)
    rest = file.read(_PADDING_BYTES + 16).lstrip(b"\0")
    return rest.startswith(_TAGS) or (not rest and num_bytes - at <= _PADDING_BYTES)


def chunks(file: BinaryIO, num_bytes: int, layout: Layout) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of each chunk's content, up to the end of the file or to an invalid name."""
    header_bytes = struct.calcsize(layout.header)
    at = layout.first_byte
    for _ in range(_MAX_CHUNKS):
        file.seek(at)
        found = file.read(header_bytes)
        if len(found) < header_bytes or not _is_name(found[:4]):
            return
        name, size = struct.unpack(layout.header, found)
        if layout.counts_header and not is_open(size):
            size = max(0, size - header_bytes)
        start = at + header_bytes
        yield name, start, size
        at = start + size
        at += -at % layout.align
        if at >= num_bytes:
            return


def is_open(size: int) -> bool:
    """Whether a size means that its writer did not know it."""
    return size == 0 or any(end - _OPEN_MARGIN_BYTES <= size <= end for end in _OPEN_ENDS)


def _is_name(name: bytes) -> bool:
    return name.isascii() and name.decode("ascii").isprintable()


def _unpack(layout: str, file: BinaryIO) -> int | None:
    data = file.read(struct.calcsize(layout))
    return int(struct.unpack(layout, data)[0]) if len(data) == struct.calcsize(layout) else None


_PROMISES: tuple[tuple[bytes, Callable[[BinaryIO, int, Unknown], int | None]], ...] = (
    (b"RIFF", _riff),
    (b"RIFX", _riff),
    (b"RF64", _riff),
    (b"riff", _w64),
    (b"FORM", _iff),
    (b"caff", _caf),
    (b".snd", _au),
    (b"dns.", _au),
    (b"NIST_1A", _sphere),
    (b"2BIT", _avr),
    (_FTYP, mp4_end),
    (b"\x1a\x45\xdf\xa3", matroska_end),
    (b"\x30\x26\xb2\x75", asf_end),
    (b"\0\0\x03\xe8", _matlab),
    (b"\0\0\0\0", _matlab),
)
