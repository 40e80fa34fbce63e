"""Finds the seek points of long audio files in a tar, for its index."""

from dataclasses import replace
from typing import BinaryIO

import numpy as np

from headrace.audio import MemberFile, PartFacts, seek_points
from headrace.format.indexes.index import LONG_BYTES, ShardIndex
from headrace.format.indexes.seek_table import SeekTable, StoredPoints

_PIECE_BYTES = 1 << 20


def with_seek_points(file: BinaryIO, index: ShardIndex) -> ShardIndex:
    """The index of a tar with the seek points of its long audio files, which are read for that.

    Args:
        file: the tar, seekable; its position is moved.
        index: its index.
    """
    if not (np.diff(index.ranges) > LONG_BYTES).any():
        return index
    names = index.audio_fields or ("",)
    found = [[_found(file, index, row, name) for name in names] for row in range(len(index))]
    return replace(index, seeks=SeekTable.of(found))


def _found(file: BinaryIO, index: ShardIndex, row: int, name: str) -> StoredPoints | None:
    audio, rate_hz = index.audio_of(row, name), int(index.sample_rate_hz[row])
    if audio is None or min(audio.num_frames, audio.num_channels, rate_hz) <= 0:
        return None
    begin, stop = audio.span
    if stop - begin <= LONG_BYTES:
        return None

    def read(first: int, last: int) -> memoryview:
        file.seek(begin + first)
        return memoryview(file.read(last - first))

    file_part = MemberFile(read, stop - begin, _PIECE_BYTES)
    points = seek_points(file_part, PartFacts(audio.num_frames, rate_hz, audio.num_channels))
    return points and StoredPoints(*points)
