"""Joins the channels of several audio files into one WAV, bit by bit, for corpora with a file for each channel.

The files have the same sample rate and length, and a lossless form, FLOAT not beside PCM_32. Nothing is written.
"""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import soundfile
from numpy.typing import NDArray

from headrace.audio import AudioInfo, probe
from headrace.errors import AudioError
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import opened, stamp_of_file

_WIDTHS = {"PCM_S8": 2, "PCM_U8": 2, "PCM_16": 2, "ULAW": 2, "ALAW": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4}
"""Subtype → bytes of a sample in the WAV."""
_FLOAT, _LONG = "FLOAT", "PCM_32"
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_MOST_BYTES = (1 << 32) - 1 - _HEADER.size


def joined_stamp(files: Sequence[str]) -> FileStamp | None:
    """A stamp that changes with that of any of the files; its size is 0. None if one of them is not there."""
    stamps = [stamp_of_file(file) for file in files]
    found = [stamp for stamp in stamps if stamp is not None]
    if len(found) < len(stamps):
        return None
    digest = hashlib.sha256(repr(found).encode()).digest()
    return FileStamp(0, max(stamp.mtime_ns for stamp in found), int.from_bytes(digest[:7], "little") + 1)


def joined_size(files: Sequence[str]) -> int:
    """The number of bytes of the WAV. Only the headers are read.

    Raises:
        OSError: a file cannot be read, or is damaged or lossy, or no WAV has the samples of all, or the files differ in
            length or sample rate.
    """
    infos = _checked_infos(files)
    size = _HEADER.size + infos[0].num_frames * sum(info.num_channels for info in infos) * _width(infos)
    if size > _MOST_BYTES:
        raise OSError(f"the channels together have {size} bytes; a WAV has at most 4 GiB")
    return size


def joined_channels(files: Sequence[str]) -> bytes:
    """The WAV; its size is that of `joined_size` before. Raises as `joined_size`."""
    infos = _checked_infos(files)
    width, is_float = _width(infos), _is_float(infos)
    samples = np.concatenate([_samples(file, width, is_float=is_float) for file in files], axis=1)
    return _header(infos[0].sample_rate_hz, samples, width, is_float=is_float) + _packed(samples, width)


def _checked_infos(files: Sequence[str]) -> list[AudioInfo]:
    infos = [_info(file) for file in files]
    first = infos[0]
    for file, info in zip(files, infos, strict=True):
        if info.subtype not in _WIDTHS:
            raise OSError(f"{file} is {info.subtype}; only channels in lossless files are joined")
        if (info.num_frames, info.sample_rate_hz) != (first.num_frames, first.sample_rate_hz):
            raise OSError(
                f"{file} has {info.num_frames} frames at {info.sample_rate_hz} Hz, and {files[0]} has "
                f"{first.num_frames} at {first.sample_rate_hz} Hz; the channels of a recording are equally long"
            )
        if info.subtype == _LONG and _is_float(infos):
            raise OSError(f"{file} is {_LONG}, whose samples do not fit among the {_FLOAT} of another channel")
    return infos


def _info(file: str) -> AudioInfo:
    stamp = stamp_of_file(file)
    if stamp is None:
        raise FileNotFoundError(f"{file}: there is no such file, or it is not a regular file")
    try:
        with opened(file) as data:
            return probe(data, num_bytes=stamp.num_bytes)
    except AudioError as error:
        raise OSError(f"{file}: {error}") from error


def _is_float(infos: Sequence[AudioInfo]) -> bool:
    return any(info.subtype == _FLOAT for info in infos)


def _width(infos: Sequence[AudioInfo]) -> int:
    """Bytes of a sample: those of the widest file."""
    return max(_WIDTHS[info.subtype] for info in infos)


def _samples(file: str, width: int, *, is_float: bool) -> NDArray[np.generic]:
    """The samples of a file, (frames, channels): float32, int16, or int32 with the value in the upper bits."""
    dtype = "float32" if is_float else "int16" if width == _WIDTHS["PCM_16"] else "int32"
    try:
        with opened(file) as data:
            samples: NDArray[np.generic] = soundfile.read(data, dtype=dtype, always_2d=True)[0]
    except soundfile.LibsndfileError as error:
        raise OSError(f"{file}: {error}") from error
    return samples


def _packed(samples: NDArray[np.generic], width: int) -> bytes:
    """Little-endian samples of this many bytes."""
    if width == _WIDTHS["PCM_24"]:
        parts = np.ascontiguousarray(samples, "<i4").view(np.uint8).reshape(*samples.shape, 4)
        return parts[..., 1:].tobytes()
    return samples.astype(samples.dtype.newbyteorder("<")).tobytes()


def _header(rate_hz: int, samples: NDArray[np.generic], width: int, *, is_float: bool) -> bytes:
    num_frames, num_channels = samples.shape
    num_bytes, block = num_frames * num_channels * width, num_channels * width
    form = 3 if is_float else 1
    about = (16, form, num_channels, rate_hz, rate_hz * block, block, 8 * width)
    return _HEADER.pack(b"RIFF", num_bytes + _HEADER.size - 8, b"WAVE", b"fmt ", *about, b"data", num_bytes)
