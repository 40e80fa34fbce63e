"""Decides in which order files leave the cache: by their next use where it is known, and by their last use elsewhere.

The files that this job knows and all others share the folder. Which of the two gives up a file is decided by the last
use, as if nobody knew the future: so a job takes no room from others that it would not take otherwise. If it is the
turn of this job, the file that it needs last goes instead of the one that it used first. The file that stays gets the
last use of the one that went, so that the turns after it are not changed either.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class CachedFiles:
    """A shard in the cache with its index, or only an index: their size, and the time of the last use in ns."""

    name: str
    is_shard: bool = False
    num_bytes: int = 0
    used_ns: int = 0


class NextUses(Protocol):
    """Knowledge of a job about its next uses of files."""

    def distances(self, names: Sequence[str]) -> NDArray[np.float64] | None:
        """Distance to the next use of each file, float64 (n,), in any unit.

        Infinity for a file of this job that it does not need again, NaN for a file of others. None if only the last
        use should decide.
        """


@dataclass(frozen=True, slots=True)
class Turn:
    """A file to evict, and the file whose turn it was: it gets the last use of the evicted one."""

    victim: CachedFiles
    heir: CachedFiles


def coldest_first(files: Iterable[tuple[str, int, int]], index_suffix: str) -> list[CachedFiles]:
    """Indexes without shards, then shards with their indexes; each from the least to the most recently used.

    Args:
        files: name, size and time of the last use of every file of the folder.
        index_suffix: what the name of an index ends in.
    """
    found: dict[str, CachedFiles] = {}
    for file, num_bytes, used_ns in files:
        if file[0] == ".":
            continue
        name = file.removesuffix(index_suffix)
        kept = found.setdefault(name, CachedFiles(name))
        kept.num_bytes += num_bytes
        if file == name:
            kept.is_shard = True
        if file == name or not kept.is_shard:
            kept.used_ns = used_ns
    return sorted(found.values(), key=lambda kept: (kept.is_shard, kept.used_ns))


def turns(coldest: Sequence[CachedFiles], uses: NextUses | None) -> Iterator[Turn]:
    """The files in the order in which they should be evicted; `coldest` is in the order of their last uses."""
    shards = [kept for kept in coldest if kept.is_shard]
    distances = uses.distances([kept.name for kept in shards]) if uses is not None and shards else None
    if distances is None:
        yield from (Turn(kept, kept) for kept in coldest)
        return
    known = [place for place, distance in enumerate(distances.tolist()) if distance == distance]  # noqa: PLR0124 - not NaN
    farthest = iter(sorted(known, key=lambda place: -distances[place]))  # of equal ones the least recently used first
    yield from (Turn(kept, kept) for kept in coldest if not kept.is_shard)
    for kept, distance in zip(shards, distances.tolist(), strict=True):
        yield Turn(kept if np.isnan(distance) else shards[next(farthest)], kept)
