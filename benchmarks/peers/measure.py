"""One system, once, in this process: `python -m benchmarks.peers.measure MODULE CORPUS KIND NUM_WORKERS FORM [FLAG]`.

`read.py` starts it in the system's environment; the last line it prints is JSON. A run takes the time; or
watches the memory (`--memory`), which takes time itself; or reads what arrives (`--check`). Standard library and numpy
only.
"""

import argparse
import hashlib
import importlib
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.peers.clips import BEST, DOCUMENTED, Batch, Run, warm

MEMORY_SHARE = 0.2
"""Of one core, for looking at the memory: a look costs milliseconds a process."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one run.

    Attributes:
        num_samples: that arrived.
        seconds: from the call to the last batch: construction counts, imports and shutting down do not.
        first_seconds: from the call to the first batch.
        first_samples: that came with it.
        cpu_seconds: of this process and its children, up to their end.
        stolen_share: of the cores' time meanwhile, what a virtual machine's host gave to others; 0 where unknown.
    """

    num_samples: int
    seconds: float
    first_seconds: float
    first_samples: int
    cpu_seconds: float
    stolen_share: float

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.num_samples / self.seconds

    @property
    def steady_rate(self) -> float:
        """Samples per second without the first batch."""
        return (self.num_samples - self.first_samples) / (self.seconds - self.first_seconds)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one run.

    Attributes:
        peak_mib: of this process and its children; pages that they share count once.
    """

    peak_mib: float


@dataclass(frozen=True, slots=True)
class Contents:
    """Samples that one run delivered, in any order.

    Attributes:
        num_samples: rows of all batches.
        titles: digest of all titles, sorted.
        total: audio: the sum of all magnitudes in 16-bit steps; latents: of all their bytes' 16-bit words.
    """

    num_samples: int
    titles: str
    total: int


def timed(system: ModuleType, run: Run) -> Timing:
    """Measure one pass."""
    stolen = _stolen_seconds()
    start, cpu = time.perf_counter(), _cpu_seconds()
    arrivals: list[tuple[float, int]] = []
    for _, metadata in _batches(system, run):
        arrivals.append((time.perf_counter() - start, len(metadata)))
    cpu = _cpu_seconds() - cpu
    stolen_share = (_stolen_seconds() - stolen) / (time.perf_counter() - start) / len(os.sched_getaffinity(0))
    return Timing(sum(count for _, count in arrivals), arrivals[-1][0], *arrivals[0], cpu, stolen_share)


def watched(system: ModuleType, run: Run) -> Memory:
    """Watch the memory of one pass."""
    memory = PeakMemory()
    for _ in _batches(system, run):
        pass
    return Memory(memory.stop())


def checked(system: ModuleType, run: Run) -> Contents:
    """Read one pass to its last sample."""
    titles: list[str] = []
    total = 0
    for samples, metadata in _batches(system, run):
        titles += [row["title"] for row in metadata]
        total += sum(_sum(row) for row in np.asarray(samples))
    digest = hashlib.sha256("\n".join(sorted(titles)).encode()).hexdigest()
    return Contents(len(titles), digest, total)


def _batches(system: ModuleType, run: Run) -> Iterator[Batch]:
    return iter(system.read(run))


def _sum(row: np.ndarray) -> int:
    """An exact sum, to which padding adds nothing."""
    if row.dtype == np.float32:
        return int(np.abs(np.rint(row * 32_768).astype(np.int64)).sum())
    return int(np.ascontiguousarray(row).view(np.uint16).sum(dtype=np.int64))


class PeakMemory:
    """Peak proportional memory of this process and its children."""

    def __init__(self) -> None:
        self._peak_kib = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The peak so far, in MiB."""
        self._is_over.set()
        self._thread.join()
        return self._peak_kib / 1024

    def _watch(self) -> None:
        cost = 0.0
        while not self._is_over.wait(cost / MEMORY_SHARE):
            start = time.thread_time()
            self._peak_kib = max(self._peak_kib, _tree_kib(os.getpid()))
            cost = time.thread_time() - start


def _tree_kib(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = {int(child) for task in tasks for child in (task / "children").read_text().split()}
    except OSError:  # it ended
        return 0
    own = next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own + sum(_tree_kib(child) for child in children)


def bring_memory_back(num_bytes: int = 1 << 30) -> None:
    """Touch as much memory as a system may take, and give it back to the kernel at once.

    Free memory of a virtual machine may be the host's until it is touched, which then takes milliseconds a megabyte
    instead of 60 microseconds: more than most of what is measured here, and by chance.
    """
    with mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)  # so that both large pages and small ones are taken from what it gives back
        for start in range(0, num_bytes, mmap.PAGESIZE):
            memory[start] = 1


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _stolen_seconds() -> float:
    """Of all cores since they started (proc_stat(5))."""
    try:
        ticks = Path("/proc/stat").read_text().partition("\n")[0].split()[8]
    except (OSError, IndexError):
        return 0.0
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run what the command line asks for, and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("kind")
    parser.add_argument("num_workers", type=int)
    parser.add_argument("form", choices=(DOCUMENTED, BEST))
    for flag, other in {"--memory": watched, "--check": checked}.items():
        parser.add_argument(flag, dest="measure", action="store_const", const=other, default=timed)
    options = vars(parser.parse_args())
    measure = options.pop("measure")
    run = Run(**options)
    system = importlib.import_module(f"benchmarks.peers.{run.module}")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    system.prepare(run)
    warm(run)
    bring_memory_back()
    print("\n" + json.dumps(asdict(measure(system, run))))


if __name__ == "__main__":
    main()
