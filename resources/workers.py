"""Builds partitions and reads the files of scans: the interface `Workers`, and its implementation with threads.

`ray_workers` implements the same interface with the nodes of a Ray cluster.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

import dagster as dg
from pydantic import Field

from headrace.catalog.scanning.scan_workers import FileWorkers, ReadingThreads
from headrace.machine import num_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
Made_co = TypeVar("Made_co", covariant=True)

_READERS_PER_THREAD = 4  # reading a file is mostly waiting for a disk or a store
_MOST_READERS = 32


class BuildFunction(Protocol[Made_co]):
    """A function that builds a partition."""

    def __call__(self, *, num_threads: int, progress: Callable[[int], None]) -> Made_co:
        """Build it with `num_threads` threads. `progress` is called with how many more samples are done."""


class Workers(FileWorkers, Protocol):
    """Workers that build partitions and read files, and the number of threads that other work may use."""

    @property
    def count(self) -> int:
        """Threads for work that is done on this machine in any case, at least 1."""

    @property
    def at_a_time(self) -> int:
        """Calls of `run` that may be in progress at a time, each on its own thread, at least 1."""

    def run(self, work: BuildFunction[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:
        """Do the work of a partition and wait for its result.

        Args:
            work: builds the partition. It may be pickled and called on another machine, so it opens stores and loads
                models itself.
            progress: called in this process with how many more samples are done.
            on_gpu: whether the work is faster on a GPU.

        Raises:
            Exception: what `work` raises.
            BuildError: the machine that did the work is gone.
        """


class WorkersResource(dg.ConfigurableResource["WorkersResource"]):
    """Threads of this machine."""

    num_threads: int = Field(
        default=0, ge=0, description="threads of a run; 0 (auto) for one per core that the process may use"
    )

    @property
    def count(self) -> int:
        """See `Workers.count`."""
        return self.num_threads or num_cores()

    @property
    def at_a_time(self) -> int:
        """See `Workers.at_a_time`: one, which has all threads."""
        return 1

    def run(self, work: BuildFunction[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:  # noqa: ARG002
        """See `Workers.run`. An encoder finds this machine's GPUs itself."""
        return work(num_threads=self.count, progress=progress)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """See `FileWorkers.map`."""
        readers = ReadingThreads(max(self.count, min(_READERS_PER_THREAD * self.count, _MOST_READERS)))
        return readers.map(function, items)
