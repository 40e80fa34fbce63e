"""A training job of two ranks in small: `StreamingDataset` with worker processes, saved and resumed in mid-epoch.

Owns that job and what it must show of batches and resumption. What arrives is judged by `headrace.smoke`.
"""

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config import LoaderConfig
from headrace.smoke_arrivals import Arrived, arrived_batch

if TYPE_CHECKING:
    from headrace.streaming.loader import StreamingDataLoader

_RANKS = 2
_PATIENCE_SECONDS = 5.0
_SERVANTS = ("resource_tracker", "forkserver")


@dataclass(slots=True)
class RankStreams:
    """Two ranks over the same shards.

    Attributes:
        remote: what `StreamingDataset` is to read.
        snapshot: which snapshot of it; None where `remote` names shards.
        loader: worker processes and how far they work ahead.
        batch_size: of one rank.
        batches: by rank, the keys of every batch, in order; filled by `arrivals`.
    """

    remote: str
    snapshot: int | None
    loader: LoaderConfig
    batch_size: int
    batches: list[list[list[str]]] = field(default_factory=lambda: [[] for _ in range(_RANKS)])
    _cache: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    _state: dict[str, Any] | None = None

    def arrivals(self) -> Iterator[Arrived]:
        """All samples of one epoch, batch by batch, the ranks by turns; the first rank is saved in the middle."""
        loaders = [self._open(rank) for rank in range(_RANKS)]
        middle = len(loaders[0]) // 2
        running = [iter(loader) for loader in loaders]
        with contextlib.ExitStack() as stack:
            for batches in running:
                stack.callback(batches.close)  # type: ignore[attr-defined]  # generators
            done = [False] * _RANKS
            while not all(done):
                for rank, batches in enumerate(running):
                    batch = next(batches, None)
                    if batch is None:
                        done[rank] = True
                        continue
                    self.batches[rank].append(list(batch["keys"]))
                    if rank == 0 and len(self.batches[0]) == middle:
                        self._state = loaders[0].state_dict()
                    yield from arrived_batch(batch)

    def batch_faults(self) -> list[str]:
        """Where the ranks did not get the same number of batches of the same size."""
        counts = [len(batches) for batches in self.batches]
        faults = [] if len(set(counts)) == 1 else [f"the ranks got {counts} batches"]
        odd = {len(keys) for batches in self.batches for keys in batches} - {self.batch_size}
        return [*faults, *([f"batches of {sorted(odd)} samples beside those of {self.batch_size}"] if odd else [])]

    def resume_faults(self) -> list[str]:
        """Where a job that starts again from the saved state does not get exactly the batches that were left."""
        if self._state is None:
            return []
        loader = self._open(0)
        loader.load_state_dict(self._state)
        found = [list(batch["keys"]) for batch in loader]
        left = self.batches[0][len(self.batches[0]) // 2 :]
        if found == left:
            return []
        at = next((i for i, (a, b) in enumerate(zip(found, left, strict=False)) if a != b), min(len(found), len(left)))
        return [f"resumed in mid-epoch: {len(found)} batches came, {len(left)} were left; the first to differ is {at}"]

    def close(self) -> None:
        """Remove the cache."""
        self._cache.cleanup()

    def _open(self, rank: int) -> "StreamingDataLoader":
        from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415 - torch comes in only here
        from headrace.streaming.loader import StreamingDataLoader  # noqa: PLC0415
        from headrace.streaming.world import World  # noqa: PLC0415

        dataset = StreamingDataset(
            remote=self.remote,
            local=str(Path(self._cache.name, f"rank{rank}")),
            snapshot=self.snapshot,
            batch_size=self.batch_size,
            shuffle=True,
            world=World(rank, _RANKS),
        )
        workers, ahead = self.loader.num_workers, self.loader.prefetch_factor
        return StreamingDataLoader(dataset, num_workers=workers, prefetch_factor=ahead)


def child_processes() -> set[int]:
    """Processes that this one started and that are still there, but for Python's own servants."""
    folder = Path("/proc/self/task")
    if not folder.is_dir():
        return {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    children = {pid for task in folder.iterdir() for pid in _started_by(task)}
    return {pid for pid in children if not any(name in _command(pid) for name in _SERVANTS)}


def _started_by(task: Path) -> list[int]:
    """Children of a thread; none of one that has ended since it was listed, for others inherit them."""
    try:
        return [int(pid) for pid in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def leftover_processes(before: set[int]) -> list[str]:
    """Children that a job left behind, after a moment to end."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (left := child_processes() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"process {pid} is still there: {_command(pid)[:100]}" for pid in sorted(left)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
