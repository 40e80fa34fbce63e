"""Describes the raw values of stored latents, their place and dtype, and makes arrays from their bytes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BFLOAT16 = "bfloat16"
TENSOR_DTYPES = ("float16", BFLOAT16, "float32")
"""Dtypes that raw tensors in an index have; latents of another dtype are only unpickled."""


class TensorPlace(NamedTuple):
    """Place of the raw values of a (T, D) tensor, row by row: half-open byte range in a file, and shape."""

    start: int
    stop: int
    num_frames: int
    width: int

    def after(self, offset: int) -> "TensorPlace":
        """Move the place to a file that has `offset` more bytes before it."""
        return self._replace(start=self.start + offset, stop=self.stop + offset)


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that holds values of a named dtype: uint16 for bfloat16, which numpy does not have."""
    return np.dtype(np.uint16) if dtype == BFLOAT16 else np.dtype(dtype)


def widen_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """The bits of bfloat16 values (uint16) as float32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_values(raw: bytes, shape: tuple[int, int], dtype: str) -> NDArray[np.float32]:
    """Raw values of a tensor, or of its first rows, as float32.

    Args:
        raw: the values, row by row, little-endian.
        shape: (T, D).
        dtype: its name, of `TENSOR_DTYPES`.

    Raises:
        ValueError: there are more or fewer bytes than the shape needs.
    """
    stored = np.frombuffer(raw, storage_dtype(dtype)).reshape(shape)
    return widen_bfloat16(stored) if dtype == BFLOAT16 else stored.astype(np.float32)
