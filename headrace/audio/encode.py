"""Encodes segments of a recording as FLAC or Opus, in bounded memory, or keeps the recording's own bytes.

A segment is decoded, mixed, resampled and rounded as needed. libsndfile and soxr release the GIL, so callers can encode
several recordings at once on threads.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from headrace.audio.codecs import FLAC_EXTENSION, kept_extension
from headrace.audio.conversion import Conversion, form_of
from headrace.audio.flac import flac_info
from headrace.audio.flac_sound import open_flac
from headrace.audio.forms import AudioFormat, AudioInfo, AudioOrigin, Codec, EncodedSegment, Segment
from headrace.audio.opening import Sound, open_sound
from headrace.audio.reader import FrameReader, covers, native_dtype, overlap_of, read_to_end
from headrace.audio.sound import position_kept
from headrace.audio.tags import behind_tag
from headrace.audio.transform import TRANSFORM_DTYPE, TransformedConversion
from headrace.audio.writer import StreamForm, copy_file
from headrace.errors import AudioError

BLOCK_SAMPLES = 1 << 20  # decoded at a time: bounds the memory; a short clip is one read and one write
_FLAC_HEAD_BYTES = 42
_FLAC = "FLAC"


def encode_segments(  # noqa: PLR0913 - a recording, what is wanted of it, and how it is read
    file: BinaryIO,
    info: AudioInfo,
    wanted: AudioFormat,
    segments: Sequence[Segment],
    *,
    metadata: Mapping[str, Any] | None = None,
    block_samples: int = BLOCK_SAMPLES,
) -> Generator[EncodedSegment, None, None]:
    """Encode segments of a recording, lazily, in the given order, which must be ascending.

    A segment's bytes depend neither on the other segments nor on `block_samples`. Integers that fit are kept bit for
    bit; others are rounded and clipped (`levels.to_pcm`). A segment is resampled with the audio around it, so that
    joined segments equal the resampled whole within one step of the output. A source that is already FLAC in the wanted
    form, with one segment over all of it, is decoded once to check it and then copied byte for byte; so are other
    sources with `codec: copy` (`codecs.kept_extension`). Ogg streams have the serial number 0 (`with_serial`). With
    `wanted.transform`, the whole recording is decoded, held in memory and given to the function.

    Args:
        file: the recording, seekable. The caller must not read it meanwhile. Its position is restored.
        info: result of `probe` for this recording.
        wanted: format in the shard.
        segments: from `plan_segments`.
        metadata: the user's columns, for `wanted.transform`.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        AudioError: `truncated`, `undecodable`, `non_finite`; `unsupported` if the wanted format is not possible;
            the message names the YAML key to change; or `transform_failed`.
        BuildError: the encoder or the disk failed.
    """
    if not segments:
        return
    recording, file = file, behind_tag(file)
    block_frames = max(1, block_samples // info.num_channels)
    if wanted.transform is not None:
        with _open_whole(file, info) as sound:
            reader = FrameReader(sound, info, dtype=TRANSFORM_DTYPE, block_frames=block_frames)
            blocks = list(reader.blocks(0, info.num_frames))
        yield from TransformedConversion(info, wanted, metadata or {}).segments(blocks, segments)
        return
    form = form_of(info, wanted)
    extension = _extension_of_copy(file, info, wanted, form, segments)
    if extension is not None and file is recording:  # not every reader skips a tag
        _prove_whole(file, info, block_frames)
        yield _copied(file, info, extension)
        return
    job = Conversion(info, form)
    windows = [job.window(segment) for segment in segments]
    overlap = overlap_of(windows)
    is_whole_flac = info.container == _FLAC and covers(windows, info.num_frames)
    with open_flac(file, info) if is_whole_flac else open_sound(file) as sound:
        reader = FrameReader(sound, info, dtype=job.reading_dtype, block_frames=block_frames, keep=overlap)
        for segment, window in zip(segments, windows, strict=True):
            yield job.encoded(reader.blocks(window.start_frame, window.stop_frame), segment, window)


def proves(info: AudioInfo, wanted: AudioFormat, segments: Sequence[Segment]) -> bool:
    """Whether `encode_segments` with these segments checks the whole recording; if not, `prove` does.

    Only FLAC has a checksum of the whole audio, which can be checked only by decoding all of it from the beginning.
    """
    if info.container != _FLAC or wanted.transform is not None:
        return True
    try:
        job = Conversion(info, form_of(info, wanted))
    except AudioError:  # `encode_segments` raises the same error
        return True
    return covers([job.window(segment) for segment in segments], info.num_frames)


def prove(file: BinaryIO, info: AudioInfo, *, block_samples: int = BLOCK_SAMPLES) -> None:
    """Check that a whole FLAC recording has the number of frames and the MD5 of its header, by decoding it.

    Other formats are not checked. `proves` reports whether `encode_segments` makes this check by itself.

    Args:
        file: the recording; its position is restored.
        info: result of `probe` for this recording.
        block_samples: number of samples (frames times channels) to decode at a time.

    Raises:
        AudioError: `truncated` or `undecodable`.
    """
    if info.container == _FLAC:
        _prove_whole(behind_tag(file), info, max(1, block_samples // info.num_channels))


def _prove_whole(file: BinaryIO, info: AudioInfo, block_frames: int) -> None:
    """Decode a whole recording, to check that it is complete, undamaged and finite."""
    with _open_whole(file, info) as sound:
        read_to_end(FrameReader(sound, info, dtype=native_dtype(info), block_frames=block_frames), info.num_frames)


def _open_whole(file: BinaryIO, info: AudioInfo) -> AbstractContextManager[Sound]:
    """Open a recording that is read from beginning to end; the audio of FLAC is checked."""
    return open_flac(file, info) if info.container == _FLAC else open_sound(file)


def _extension_of_copy(
    file: BinaryIO, info: AudioInfo, wanted: AudioFormat, form: StreamForm, segments: Sequence[Segment]
) -> str | None:
    """The extension of a sample that has the recording's own bytes; None if the segments have to be encoded."""
    if list(segments) != [Segment(segments[0].index, 0, info.num_frames)]:
        return None
    extension = kept_extension(info, wanted, segments[0])
    if info.container != _FLAC or wanted.codec is Codec.OPUS:
        return extension
    if extension is None and (form.sample_rate_hz, form.num_channels, form.bits) != _form_of(info):
        return None
    return FLAC_EXTENSION if _is_plain_flac(file, info) else None


def _is_plain_flac(file: BinaryIO, info: AudioInfo) -> bool:
    """Whether the header of a FLAC file has the recording's length and form."""
    with position_kept(file):
        file.seek(0)
        head = file.read(_FLAC_HEAD_BYTES)
    return flac_info(head) == (info.num_frames, *_form_of(info))


def _form_of(info: AudioInfo) -> tuple[int, int, int | None]:
    return info.sample_rate_hz, info.num_channels, info.bits_per_sample


def _copied(file: BinaryIO, info: AudioInfo, extension: str) -> EncodedSegment:
    with position_kept(file):
        file.seek(0)
        payload, num_bytes = copy_file(file)
    return EncodedSegment(payload, num_bytes, info.num_frames, *_form_of(info), extension, AudioOrigin.RECORDING)
