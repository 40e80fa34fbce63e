"""Compares the lengths in a header or an index with the number of stored bytes, before memory is allocated.

A damaged header or index can claim billions of frames; without this check, the loader would allocate gigabytes for
them. Smaller errors are found when the sample is decoded.
"""

import numpy as np

from headrace.audio import AudioInfo, AudioReject, FlacInfo, decode_flac_into
from headrace.errors import AudioError
from headrace.streaming.samples.stored_sample import StoredAudio, StoredSample

_SAMPLES_IN_A_BYTE = 8
"""Most audio samples in a byte of FLAC: a sample takes at least a bit, except in silence."""
_LOSSY_SAMPLES_IN_A_BYTE = 128
"""Most audio samples in a byte of a lossy file: Opus of 6 kbit/s has 64, except in silence."""
_RATES_HZ = range(100, 10_000_001)


def is_plausible(sample: StoredSample) -> bool:
    """Whether the length in the index fits the stored bytes, so that a batch of this size may be allocated.

    A sample that fails this may still be sound (silence); it is then made alone, from its bytes.
    """
    for field in sample.audio():  # the number of raw latents was compared with their bytes when the index was read
        start, stop = field.span
        most = _SAMPLES_IN_A_BYTE if field.is_flac else _LOSSY_SAMPLES_IN_A_BYTE
        if field.num_frames * field.num_channels > most * (stop - start):
            return False
    return True


def check_flac(blob: memoryview, info: FlacInfo) -> None:
    """Check that a short FLAC stream has the frames that its header promises, by decoding the last one.

    Raises:
        AudioError: it has fewer frames.
    """
    if _is_plausible_flac(info.num_frames, info.num_channels, len(blob)):
        return
    try:
        decode_flac_into(blob, np.empty((info.num_channels, 1), np.float32), info.num_frames - 1, 1)
    except AudioError as error:
        found = f"its header promises {info.num_frames} frames, which its {len(blob)} bytes do not hold"
        raise AudioError(AudioReject.UNDECODABLE, f"damaged FLAC: {found}; fetch or build it again") from error


def check_header(sample: StoredSample, field: StoredAudio, info: FlacInfo) -> None:
    """Compare a FLAC header with the index: no checksum of FLAC covers the header.

    Raises:
        AudioError: they differ.
    """
    _check_facts(sample, field, (info.num_frames, info.sample_rate_hz, info.num_channels), "FLAC")


def check_encoded(sample: StoredSample, field: StoredAudio, info: AudioInfo) -> None:
    """Compare the facts of audio other than FLAC with the index.

    Raises:
        AudioError: they differ.
    """
    _check_facts(sample, field, (info.num_frames, info.sample_rate_hz, info.num_channels), info.container)


def _check_facts(sample: StoredSample, field: StoredAudio, found: tuple[int, int, int], container: str) -> None:
    promised = field.num_frames, sample.sample_rate_hz, field.num_channels
    if found != promised and field.num_frames > 0:
        raise AudioError(
            AudioReject.UNDECODABLE,
            f"damaged {container}: its header says (frames, Hz, channels) {found}, the index says {promised}: "
            "`headrace verify` says which is damaged; fetch the shard again",
        )


def check_rate(rate_hz: int) -> None:
    """Raise `AudioError` for a rate so low or high that resampling could need gigabytes."""
    if rate_hz not in _RATES_HZ:
        raise AudioError(
            AudioReject.UNDECODABLE,
            f"its header says {rate_hz} Hz: expected {_RATES_HZ[0]} to {_RATES_HZ[-1]} to resample it; write it again",
        )


def _is_plausible_flac(num_frames: int, num_channels: int, num_bytes: int) -> bool:
    return num_frames * num_channels <= _SAMPLES_IN_A_BYTE * num_bytes
