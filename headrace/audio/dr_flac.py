"""The FLAC decoder dr_flac, called through `_miniaudio`, the private compiled module of the package miniaudio.

This is the only module that imports `_miniaudio`.

- Used of it: `ffi`, and of `lib` seven functions of dr_flac (`ma_dr_flac_open_memory`, `ma_dr_flac_open_file`,
  `ma_dr_flac_close`, `ma_dr_flac_seek_to_pcm_frame`, `ma_dr_flac_read_pcm_frames_f32`, `…_s32`, `…_s16`). cffi releases
  the GIL while they run.
- Why: dr_flac takes 0.6 of libsndfile's time (`benchmarks/codec.py`) and gives the same values bit for bit.
- Missing in public: `miniaudio.flac_read_f32` and its siblings decode whole streams into arrays of their own. They can
  neither begin at a frame nor write into a given buffer, they copy the samples twice, and they do not report how many
  of the promised frames were decoded.
- After an upgrade of miniaudio, `tests/audio/test_flac.py` fails first: it cannot be imported if a name is gone, and it
  compares the decoded values with libsndfile's.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from _miniaudio import ffi, lib  # type: ignore[import-not-found]  # compiled, without stubs

_READERS = {
    np.dtype(np.float32): ("float[]", lib.ma_dr_flac_read_pcm_frames_f32),
    np.dtype(np.int32): ("ma_int32[]", lib.ma_dr_flac_read_pcm_frames_s32),
    np.dtype(np.int16): ("short[]", lib.ma_dr_flac_read_pcm_frames_s16),
}


class FlacDecoder:
    """A decoder at a position of a FLAC stream; used as a context manager. Made by `open_memory` or `open_file`."""

    __slots__ = ("_pointer", "_source")

    def __init__(self, pointer: Any, source: Any) -> None:  # noqa: ANN401 - C pointers
        """Take over both; `source` is the view of the stream in memory, None for a file."""
        self._pointer = pointer
        self._source = source

    def __enter__(self) -> Self:
        """Return the decoder itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Free the decoder and the view of the stream."""
        lib.ma_dr_flac_close(self._pointer)
        if self._source is not None:
            ffi.release(self._source)

    def seek(self, frame: int) -> bool:
        """Move to a PCM frame. Returns whether the stream could be decoded there."""
        return bool(lib.ma_dr_flac_seek_to_pcm_frame(self._pointer, frame))

    def read(self, num_frames: int, out: npt.NDArray[Any]) -> int:
        """Decode the next frames.

        Args:
            num_frames: how many.
            out: float32, int32 or int16, one-dimensional and contiguous, with room for the samples of all channels.
                Channels are interleaved. Integers have the value in their upper bits.

        Returns:
            Number of decoded frames; fewer at the end of the stream, or at damage.
        """
        c_type, read = _READERS[out.dtype]
        return int(read(self._pointer, num_frames, ffi.from_buffer(c_type, out, require_writable=True)))


def open_memory(data: bytes | bytearray | memoryview) -> FlacDecoder | None:
    """A decoder at the beginning of a stream in memory; None if no frame can be found.

    Leave the decoder's context before `data` is freed. Otherwise the traceback of an error would keep the view of
    `data`, and CPython crashes when it collects a memoryview in use.
    """
    source = ffi.from_buffer(data)
    pointer = lib.ma_dr_flac_open_memory(source, len(data), ffi.NULL)
    if pointer == ffi.NULL:
        ffi.release(source)
        return None
    return FlacDecoder(pointer, source)


def open_file(path: str) -> FlacDecoder | None:
    """A decoder at the beginning of a file, which it opens by itself; None if no frame can be found."""
    pointer = lib.ma_dr_flac_open_file(path.encode(), ffi.NULL)
    return None if pointer == ffi.NULL else FlacDecoder(pointer, None)
