"""What the bytes of a sample can hold, against what its header or index says: a lie must not ask for gigabytes.

Owns those bounds. They are looked at before memory is taken; decoding finds every smaller lie.
"""

import numpy as np

from headrace.audio import FlacInfo, Reject, decode_flac_into
from headrace.errors import AudioError, FormatError, IntegrityError
from headrace.streaming.batches.batch import storage_dtype
from headrace.streaming.batches.rows import Part

_SAMPLES_IN_A_BYTE = 8
"""Of FLAC; only silence is packed more closely, as any other sample takes a bit."""
_RATES_HZ = range(100, 10_000_001)


def is_likely(part: Part) -> bool:
    """Whether a batch can be given the size that an index says, before any byte is read.

    What is not likely may still be so: where a sample is made alone, its bytes tell.
    """
    if (found := part.audio()) is not None:
        (start, stop), _ = found
        return _is_likely_flac(part.num_frames, part.num_channels, stop - start)
    return _is_tensor_whole(part)


def check_flac(blob: memoryview, info: FlacInfo) -> None:
    """See that a stream of few bytes has the frames that its header promises.

    Raises:
        AudioError: the last one is not there.
    """
    if _is_likely_flac(info.num_frames, info.num_channels, len(blob)):
        return
    try:
        decode_flac_into(blob, np.empty((info.num_channels, 1), np.float32), info.num_frames - 1, 1)
    except AudioError as error:
        found = f"its header promises {info.num_frames} frames, which its {len(blob)} bytes do not hold"
        raise AudioError(Reject.UNDECODABLE, f"damaged FLAC: {found}; fetch or build it again") from error


def check_tensor(part: Part) -> None:
    """Raises `IntegrityError` where the index contradicts itself about raw latents."""
    if part.tensor is not None and not _is_tensor_whole(part):
        start, stop, num_frames, width = part.tensor
        raise IntegrityError(
            f"its index says latents ({num_frames}, {width}) of {part.tensor_dtype} in {stop - start} bytes, which "
            "cannot be: build or fetch the index again"
        )


def check_length(encoder_length: int, num_frames: int) -> None:
    """Raises `FormatError` where `encoder_length` does not fit latents of so many frames."""
    if not 0 <= encoder_length <= num_frames:
        raise FormatError(
            f".pth: encoder_length is {encoder_length}, encoder_hidden has {num_frames} frames: expected 0 to "
            f"{num_frames}; write it again"
        )


def check_rate(rate_hz: int) -> None:
    """Raises `AudioError` for a rate that resampling would make gigabytes of."""
    if rate_hz not in _RATES_HZ:
        raise AudioError(
            Reject.UNDECODABLE,
            f"its header says {rate_hz} Hz: expected {_RATES_HZ[0]} to {_RATES_HZ[-1]} to resample it; write it again",
        )


def _is_likely_flac(num_frames: int, num_channels: int, num_bytes: int) -> bool:
    return num_frames * num_channels <= _SAMPLES_IN_A_BYTE * num_bytes


def _is_tensor_whole(part: Part) -> bool:
    if part.tensor is None:
        return True
    start, stop, num_frames, width = part.tensor
    return (
        min(num_frames, width) >= 0 and stop - start == num_frames * width * storage_dtype(part.tensor_dtype).itemsize
    )
