"""Who makes partitions: threads of this machine, or the nodes of a Ray cluster (`resources.ray_workers`).

Owns what assets may ask of either, and the threads.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import dagster as dg

from headrace.machine import num_cores

Result = TypeVar("Result")
Made_co = TypeVar("Made_co", covariant=True)


class Work(Protocol[Made_co]):
    """What it takes to make a partition."""

    def __call__(self, *, num_threads: int, progress: Callable[[int], None]) -> Made_co:
        """Make it with so many threads; `progress` is told each time how many more samples are done."""


class Workers(Protocol):
    """Threads here, and a place to make a partition, here or elsewhere."""

    @property
    def count(self) -> int:
        """Threads of this machine to start, at least 1: for what is done here whatever the cluster."""

    def run(self, work: Work[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:
        """Do a partition's work and wait for it.

        Args:
            work: what to do; it may be pickled and done on another machine, so it opens stores and loads models itself.
            progress: called here with what `work` says is done.
            on_gpu: whether the work is faster on a GPU.

        Raises:
            Exception: what `work` raises.
            BuildError: the machine that did it is gone.
        """


class WorkersResource(dg.ConfigurableResource):
    """Threads of this machine; 0 means one per core that this process may use."""

    num_threads: int = 0

    @property
    def count(self) -> int:
        """See `Workers.count`."""
        return self.num_threads or num_cores()

    def run(self, work: Work[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:  # noqa: ARG002
        """See `Workers.run`; an encoder finds this machine's GPUs itself."""
        return work(num_threads=self.count, progress=progress)
