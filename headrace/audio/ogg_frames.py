"""Decodes a part of an Ogg file from the pages that seek points give, and of Vorbis also by libsndfile's seek.

Pages say how many frames end on them (RFC 3533). Vorbis is exact from the second whole packet on. Opus has a state, so
it is decoded from half a second before the part, or five; its pages become a file that begins there (RFC 7845).
"""

import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.member_file import MemberFile
from headrace.audio.ogg import CONTINUED, NO_GRANULE, OggPage, changed_page, ogg_links, pages_of
from headrace.audio.ogg_heads import OPUS_HEAD, parts_of
from headrace.audio.ogg_packets import counts_from_zero, has_speech_mode, opus_samples
from headrace.audio.opening import whole_sound
from headrace.audio.reader import FrameReader
from headrace.audio.seek_points import Coding, SeekPoints, growing
from headrace.audio.sound import info_of, open_plain
from headrace.errors import AudioError

_BLOCK_FRAMES = 1 << 18
_PAGE = re.compile(rb"OggS\0.", re.DOTALL)  # then the number of its last frame, 8 bytes
_USUAL_PAGES_BYTES = 20_000
_MOST_PAGE_BYTES = 65_307
_VORBIS_FRAMES_BEFORE = 1 << 14
_OPUS_SAMPLES_BEFORE = 24_000  # at 48 kHz: after 12,000, one crop in 200 still differs by more than 2⁻²⁰
_SPEECH_SAMPLES_BEFORE = 240_000  # the state of SILK lasts longer: after 96,000, one crop in 64 differs by 0.003
_POINT_FRAMES = 1 << 14
_OPUS_RATE_HZ = 48_000
_MOST_PAGE_FRAMES = 255 * 5760  # a page has 255 packets at most, and a packet of Opus 120 ms
_GRANULE_AT, _SEQUENCE_AT = 6, 18  # in a page
_SKIP_AT = 10  # in the packet OpusHead: samples to leave out at the beginning


def decode_ogg(file: MemberFile, facts: tuple[int, int, int], out: npt.NDArray[np.float32], start: int) -> bool:
    """Decode frames of Vorbis from `start` on into `out` (channels, frames), which libsndfile finds.

    Opus is decoded whole: libsndfile's seek is wrong by a page near the ends of long pages.

    Args:
        file: an Ogg file.
        facts: frames, rate in Hz and channels that it has to have.
        out: float32 (channels, frames), any strides; is filled.
        start: the first frame.

    Returns:
        False if the file has to be decoded whole; then `out` may hold anything.
    """
    with open_plain(cast("BinaryIO", file)) as sound:
        info = info_of(sound)
        if facts != (info.num_frames, info.sample_rate_hz, info.num_channels) or not _is_countable(file, info):
            return False
        first = max(0, min(start, _last_page_begin(file)) - _VORBIS_FRAMES_BEFORE)
        if first:
            sound.seek(first)
        reader = FrameReader(
            whole_sound(sound, info), info, dtype="float32", block_frames=_BLOCK_FRAMES, position=first
        )
        done = -(start - first)
        for block in reader.blocks(first, start + out.shape[1]):
            skipped = max(0, -done)
            if len(block) > skipped:
                out[:, done + skipped : done + len(block)] = block[skipped:].T
            done += len(block)
    return True


def decode_ogg_at(
    file: MemberFile, facts: tuple[int, int, int], points: SeekPoints, out: npt.NDArray[np.float32], start: int
) -> bool:
    """Decode frames as `decode_ogg`, from the pages at seek points, without a search."""
    head, begin = bytes(file.part(0, int(points.places[0]))), int(points.places[points.at(start)])
    coding, stop = _Coding.of(head, facts[1]), start + out.shape[1]
    for blob in growing(file, begin, _ends(points, stop + _frames_before(points, facts[1]), file.num_bytes)):
        is_end = begin + len(blob) == file.num_bytes
        pages = pages_of(blob, is_end=is_end)
        if not pages or not (is_end or coding.frame(_granule(pages)) >= stop):
            continue
        stream, first = coding.stream(head, blob, pages, is_start=begin == len(head))
        with open_plain(cast("BinaryIO", io.BytesIO(stream))) as sound:
            if facts[1:] != (sound.samplerate, sound.channels) or sound.frames > len(pages) * _MOST_PAGE_FRAMES:
                return False
            samples = sound.read(sound.frames, dtype="float32", always_2d=True)
        first = coding.frame(_granule(pages)) - len(samples) if first is None else first
        least_before = coding.pre_roll if coding.is_opus and begin != len(head) else 0
        if start - first < least_before or len(samples) < stop - first:
            return False
        out[:] = samples[start - first : stop - first].T
        return True
    return False


def ogg_points(file: MemberFile, num_frames: int, rate_hz: int) -> SeekPoints | None:
    """Places of pages, found from all bytes of a file.

    None for files of several streams, and for those whose pages count other frames than a decoder.

    Raises:
        AudioError: as `ogg_links` and `parts_of`.
    """
    source = cast("BinaryIO", file)
    links = ogg_links(source, file.num_bytes)
    if len(links) > 1 or parts_of(source, links):
        return None
    data = bytes(file.part(0, file.num_bytes))
    if not counts_from_zero(data):
        return None
    pages = pages_of(data, is_end=True)
    head_bytes = next((page.start for page in pages if page.granule not in (0, NO_GRANULE)), 0)
    coding = _Coding.of(data[:head_bytes], rate_hz)
    begins, before, granule = list[int](), list[int](), 0
    for page in pages:
        is_last = page is pages[-1]  # whose end is cut: its position counts from the page before
        if page.start >= head_bytes and not page.flags & CONTINUED and not (begins and is_last):
            begins.append(page.start)
            before.append(coding.frame(granule))
        granule = max(granule, page.granule)
    if not 0 <= num_frames - coding.frame(granule) < min(coding.scale, 2):  # Opus at a lower rate is rounded
        return None
    if num_frames > len(pages) * _MOST_PAGE_FRAMES:
        return None
    has_speech = coding.is_opus and any(has_speech_mode(data[page.start : page.stop]) for page in pages[2:])
    before_part = _SPEECH_SAMPLES_BEFORE // coding.scale if has_speech else coding.pre_roll
    wanted = np.arange(0, coding.frame(granule), _POINT_FRAMES) - before_part
    numbers = np.maximum(0, np.searchsorted(before, wanted, "right") - 1)
    places = np.array(begins, np.int64)[numbers] if begins else numbers
    kind = Coding.OPUS if coding.is_opus else Coding.VORBIS
    return SeekPoints(kind, 0, _POINT_FRAMES, places) if begins and len(places) else None


def ogg_spans(points: SeekPoints, rate_hz: int, stretch: tuple[int, int], num_bytes: int) -> list[tuple[int, int]]:
    """Bytes that `decode_ogg_at` probably reads for frames [start, stop) of a file."""
    begin, end = int(points.places[points.at(stretch[0])]), stretch[1] + _frames_before(points, rate_hz)
    return [(0, int(points.places[0])), (begin, next(_ends(points, end, num_bytes)))]


class _Coding(NamedTuple):
    """Rules by which the pages of a stream count frames.

    Attributes:
        skip: samples, as pages count them, that are left out at the beginning: of Opus.
        scale: samples, as pages count them, of a frame.
        pre_roll: frames that are decoded before a part.
        is_opus: whether it is Opus; else Vorbis.
    """

    skip: int
    scale: int
    pre_roll: int
    is_opus: bool

    @classmethod
    def of(cls, head: bytes, rate_hz: int) -> "_Coding":
        """The coding of the pages at the beginning of a file whose frames have a rate."""
        at = head.find(OPUS_HEAD)
        if at < 0:
            return cls(0, 1, _VORBIS_FRAMES_BEFORE, is_opus=False)
        skip = int.from_bytes(head[at + _SKIP_AT : at + _SKIP_AT + 2], "little")
        if _OPUS_RATE_HZ % rate_hz:
            raise AudioError(AudioReject.UNDECODABLE, f"Opus at {rate_hz} Hz; index the shard again")
        scale = _OPUS_RATE_HZ // rate_hz
        return cls(skip, scale, _OPUS_SAMPLES_BEFORE // scale, is_opus=True)

    def frame(self, granule: int) -> int:
        """Frames of the file before a position of its pages."""
        return (granule - self.skip) // self.scale

    def stream(self, head: bytes, blob: bytes, pages: Sequence[OggPage], *, is_start: bool) -> tuple[bytes, int | None]:
        """A file of some pages, and its first frame; None where the last page states its end."""
        last = pages[-1].stop
        if is_start:
            return head + blob[:last], 0
        if not self.is_opus:
            return head + blob[:last], None
        first = pages[0].granule - opus_samples(blob[pages[0].start : pages[0].stop])
        shifted = [_shifted(blob[page.start : page.stop], page, first) for page in pages]
        at = head.index(OPUS_HEAD) + _SKIP_AT
        page_bytes = next((page.stop for page in pages_of(head, is_end=True)), 0)
        return changed_page(head[:page_bytes], at, bytes(2)) + head[page_bytes:] + b"".join(shifted), self.frame(first)


def _frames_before(points: SeekPoints, rate_hz: int) -> int:
    """Frames from a point to its own one, at least. Of speech, points of as many frames lead to the first page."""
    if points.coding == Coding.VORBIS:
        return _VORBIS_FRAMES_BEFORE
    at_first = int(np.searchsorted(points.places, points.places[0], "right")) * points.step
    music, speech = (count * rate_hz // _OPUS_RATE_HZ for count in (_OPUS_SAMPLES_BEFORE, _SPEECH_SAMPLES_BEFORE))
    return speech if at_first >= speech else music


def _ends(points: SeekPoints, frame: int, num_bytes: int) -> Iterator[int]:
    """Ends of the page at the first point behind a frame, and of those that follow."""
    at = int(points.places[points.at(frame + points.step - 1)])
    while (number := int(np.searchsorted(points.places, at, "right"))) < len(points.places):
        at = int(points.places[number])
        yield at
    yield num_bytes


def _shifted(blob: bytes, page: OggPage, samples: int) -> bytes:
    """A page that begins earlier by some samples."""
    if page.granule == NO_GRANULE:
        return blob
    return changed_page(blob, _GRANULE_AT, (page.granule - samples).to_bytes(8, "little", signed=True))


def _granule(pages: Sequence[OggPage]) -> int:
    return max(page.granule for page in pages)


def _last_page_begin(file: MemberFile) -> int:
    """Frames before the last page of an Ogg file: libsndfile cannot seek into that page exactly. 0 if unknown."""
    for num_bytes in (_USUAL_PAGES_BYTES, 2 * _MOST_PAGE_BYTES):
        tail = bytes(file.part(max(0, file.num_bytes - num_bytes), file.num_bytes))
        ends = [
            int.from_bytes(tail[page.end() : page.end() + 8], "little", signed=True) for page in _PAGE.finditer(tail)
        ]
        if (found := max(ends[:-1], default=0)) > 0:
            return found
    return 0


def _is_countable(file: MemberFile, info: AudioInfo) -> bool:
    """Whether libsndfile finds frames of a file as a whole decode counts them."""
    if (info.container, info.subtype) != ("OGG", "VORBIS") or info.num_channels > 2:
        return False
    parts = (bytes(file.part(0, min(num_bytes, file.num_bytes))) for num_bytes in (1 << 14, 2 * _MOST_PAGE_BYTES))
    return next((found for part in parts if (found := counts_from_zero(part)) is not None), False)
