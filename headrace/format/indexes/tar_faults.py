"""Compares a tar with its index: the places of all payloads, read from the tar's headers, and their CRC-32.

The headers are parsed by the reader for tars of any writer, not by the code that wrote them. Facts from inside the
payloads (lengths, shapes) are compared by `headrace verify`.
"""

import io
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO

import numpy as np

from headrace.errors import HeadraceError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_entries import SampleEntry, group_members
from headrace.format.tars.tar import read_members

Checksum = Callable[[tuple[int, int]], int]
"""Computes the CRC-32 of a half-open byte range of a tar."""


def tar_faults(file: BinaryIO, index: ShardIndex, checksum: Checksum | None = None) -> list[str]:
    """Differences between a tar and its index, one sentence each; empty if there are none.

    Args:
        file: the tar, seekable.
        index: its index.
        checksum: reads the payloads, to compare their CRC-32; for None, only headers are compared.

    Raises:
        OSError: the file cannot be read.
    """
    num_bytes = file.seek(0, io.SEEK_END)
    faults = (
        [] if num_bytes == index.num_bytes else [f"the tar has {num_bytes} bytes, the index says {index.num_bytes}"]
    )
    try:
        found = list(group_members(read_members(file, index.shard), index.shard))
    except HeadraceError as error:
        return [*faults, str(error)]
    if index.keys() != [entry.key for entry in found]:
        return [*faults, "the index lists other keys than the tar has"]
    faults += chain.from_iterable(_faults_of_places(index, i, entry) for i, entry in enumerate(found))
    if checksum is not None and not faults:
        faults += _faults_of_checksums(checksum, index)
    return faults


def _faults_of_places(index: ShardIndex, i: int, entry: SampleEntry) -> Iterator[str]:
    """Fields of a sample that the index has at other places than the tar, or that only one of them has."""
    for name in sorted({*entry.ranges, *index.fields}):
        found, stated = entry.ranges.get(name), index.range_of(i, name)
        if found != stated:
            yield f"{entry.key}.{name} is at {found}, the index says {stated}"


def _faults_of_checksums(checksum: Checksum, index: ShardIndex) -> Iterator[str]:
    for i, column in np.argwhere(index.crc32 != ABSENT).tolist():
        name, stated = index.fields[column], int(index.crc32[i, column])
        start, stop = index.ranges[i, column].tolist()
        if (found := checksum((start, stop))) != stated:
            yield f"{index.key(i)}.{name} has the CRC-32 {found:08x}, the index says {stated:08x}"
