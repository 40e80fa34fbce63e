"""Places in a long audio file from which it can be decoded, so that a part of it is found without a search.

They are found once, from all bytes of a file, and kept in a shard's index. `partial.decode_part` uses them.
"""

import math
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.audio.member_file import MemberFile


class Coding(IntEnum):
    """In which coding a file with seek points is."""

    FLAC = 1
    MPEG = 2
    VORBIS = 3
    OPUS = 4


class SeekPoints(NamedTuple):
    """Places on a regular grid of frames.

    Attributes:
        coding: a `Coding`.
        first: the frame of the first point; negative where a decoder leaves out frames at the beginning (MP3).
        step: frames from one point to the next.
        places: int64, rising; from byte `places[k]` on, a decoder gives all frames from `first + k * step` on.
    """

    coding: int
    first: int
    step: int
    places: npt.NDArray[np.int64]

    def at(self, frame: int) -> int:
        """Number of the last point at or before a frame."""
        return min(max(0, (frame - self.first) // self.step), len(self.places) - 1)

    def frame(self, number: int) -> int:
        """The frame of a point."""
        return self.first + number * self.step

    def ends(self, frame: int, num_bytes: int) -> Iterator[int]:
        """Bytes before which a frame probably ends: first by interpolation, then more and more.

        Args:
            frame: one past the last frame.
            num_bytes: size of the file.
        """
        number, rest = divmod(frame - self.first, self.step)
        edges = [*self.places[number : number + 2].tolist(), num_bytes, num_bytes]
        yield edges[0] + math.ceil((edges[1] - edges[0]) * rest / self.step)
        more = 1
        while number + more < len(self.places):
            yield int(self.places[number + more])
            more *= 2
        yield num_bytes


def growing(file: MemberFile, begin: int, ends: Iterator[int]) -> Iterator[bytes]:
    """The bytes of a file from a place up to one end after the other, of which each is read once."""
    blob = b""
    for end in ends:
        if end > begin + len(blob):
            blob += file.part(begin + len(blob), end)
            yield blob
