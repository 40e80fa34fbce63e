"""A small training job of two ranks: `StreamingDataset` with worker processes, saved and resumed within an epoch.

The job has the checks `equal_batches` and `resumes_exactly`, and finds processes that are left behind. The samples are
compared by `headrace.smoke.comparing`.
"""

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config.operation import LoaderConfig
from headrace.errors import HeadraceError
from headrace.smoke.arrivals import ArrivedSample, arrived_batch

if TYPE_CHECKING:
    from headrace.streaming.loader import StreamingDataLoader

_RANKS = 2
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_HELPERS = ("resource_tracker", "forkserver")
_THREADS = Path("/proc/self/task")


@dataclass(slots=True)
class RankStreams:
    """Two ranks over the same shards.

    Attributes:
        remote: the argument for `StreamingDataset`.
        snapshot: number of the snapshot; None if `remote` names shards.
        loader: number of worker processes, and batches that each prepares ahead.
        batch_size: batch size of one rank.
        leaves_out: whether samples are left out because their latents were rejected.
        batches: for each rank, the keys of its batches in order; filled by `arrivals`.
    """

    remote: str
    snapshot: int | None
    loader: LoaderConfig
    batch_size: int
    leaves_out: bool = False
    batches: list[list[list[str]]] = field(default_factory=lambda: [[] for _ in range(_RANKS)])
    _cache: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    _middle: int = field(init=False)
    _state: dict[str, Any] | None = None

    def arrivals(self) -> Iterator[ArrivedSample]:
        """All samples of one epoch, batch by batch, alternating between the ranks.

        The state of the first rank is saved in the middle of its batches; if it has a single batch, before that batch.
        """
        loaders = [self._open(rank) for rank in range(_RANKS)]
        first = loaders[0]
        self._middle = len(first) // 2
        self._save(first)
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
                    self._save(first)
                    yield from arrived_batch(batch)

    def _save(self, first: "StreamingDataLoader") -> None:
        if self._state is None and len(self._of_first) == self._middle:
            self._state = first.state_dict()

    @property
    def _of_first(self) -> list[list[str]]:
        """The batches of the first rank, which is saved and resumed."""
        return self.batches[0]

    def batch_faults(self) -> list[str]:
        """Error messages if the ranks did not get equally many batches of the same size."""
        counts = [len(batches) for batches in self.batches]
        faults = [] if len(set(counts)) == 1 else [f"the ranks got different numbers of batches: {counts}"]
        odd = {len(keys) for batches in self.batches for keys in batches} - {self.batch_size}
        return [*faults, *([f"some batches have {sorted(odd)} samples instead of {self.batch_size}"] if odd else [])]

    def resume_faults(self) -> list[str]:
        """Error messages if a job that resumes from the saved state does not get exactly the remaining batches."""
        if self._state is None:
            return [f"nothing to resume: the first rank stopped after {len(self._of_first)} batches, before the middle"]
        left = self._of_first[self._middle :]
        try:
            # The order of keys is the same without the values; only by their latents are samples left out.
            loader = self._open(0, None if self.leaves_out else ("metadata",))
            loader.load_state_dict(self._state)
            found = [list(batch["keys"]) for batch in loader]
        except HeadraceError as error:
            return [f"resumed after {self._middle} batches: reading failed: {error}"]
        if found == left:
            return []
        at = next((i for i, (a, b) in enumerate(zip(found, left, strict=False)) if a != b), min(len(found), len(left)))
        came = f"{len(found)} batches arrived, {len(left)} were expected; the first difference is in batch {at}"
        return [f"resumed after {self._middle} batches: {came}"]

    def close(self) -> None:
        """Delete the cache."""
        self._cache.cleanup()

    def _open(self, rank: int, fields: Sequence[str] | None = None) -> "StreamingDataLoader":
        from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415 - imports torch
        from headrace.streaming.loader import StreamingDataLoader  # noqa: PLC0415
        from headrace.streaming.world import World  # noqa: PLC0415

        dataset = StreamingDataset(
            remote=self.remote,
            local=str(Path(self._cache.name, f"rank{rank}")),
            snapshot=self.snapshot,
            batch_size=self.batch_size,
            shuffle=True,
            world=World(rank, _RANKS),
            on_missing_latents="skip",
            fields=fields,
        )
        workers, ahead = self.loader.num_workers, self.loader.prefetch_factor
        return StreamingDataLoader(dataset, num_workers=workers, prefetch_factor=ahead)


def resumable_batch_size(num_samples: int, wanted: int) -> int:
    """The largest batch size up to `wanted` for which each rank has at least two batches, so that it can be resumed."""
    return max(1, min(wanted, (num_samples - 1) // _RANKS))


def num_samples_opened(remote: str, snapshot: int) -> int:
    """Number of samples that `StreamingDataset` finds in a snapshot, without reading a shard."""
    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415 - imports torch
    from headrace.streaming.world import World  # noqa: PLC0415

    return StreamingDataset(remote=remote, snapshot=snapshot, world=World(0, 1)).size


def child_processes() -> set[int]:
    """Running child processes, except Python's own helper processes."""
    if not _THREADS.is_dir():
        return {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    children = {pid for task in _THREADS.iterdir() for pid in _started_by(task)}
    return {pid for pid in children if not any(name in _command(pid) for name in _HELPERS)}


def _started_by(task: Path) -> list[int]:
    """Child processes of a thread; empty if the thread has ended (its children then belong to another thread)."""
    try:
        return [int(pid) for pid in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def leftover_processes(before: set[int]) -> list[str]:
    """Error messages about child processes that a job left behind. They get a few seconds to end."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (left := child_processes() - before) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return [f"process {pid} is still running: {_command(pid)[:100]}" for pid in sorted(left)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
