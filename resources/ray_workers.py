"""Builds partitions on the nodes of a Ray cluster, one task per partition, and reads the files of scans there.

Sends the work to a node, asks for the processors and GPUs that it needs, and returns progress, result or error. Dagster
runs on this machine only: nodes do not see its instance or database. Nodes read the source and write the output, so
both must have the same URIs on all of them. A node commits the shards that it finishes; losing a node loses only the
shards that it was writing.
"""

import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.errors import BuildError, MissingDependencyError
from headrace.machine import num_cores
from headrace_dagster.resources.workers import BuildFunction, Item, Result

_REPORT_SECONDS = 0.5
_ANSWER_SECONDS = 10.0  # Ray itself would try for ten minutes, with a log line each time
_ITEMS_PER_TASK = 16  # a task costs about a millisecond of this machine
_THREADS_PER_TASK = 4  # reading a file is mostly waiting
_TASKS_PER_PROCESSOR = 2  # one runs, one waits
_RETRIES = 3


class RayWorkersResource(dg.ConfigurableResource["RayWorkersResource"]):
    """Builds partitions as tasks of a Ray cluster.

    Attributes:
        address: address of the cluster, as `ray.init` takes it: `auto` on one of its nodes, `host:6379`,
            `ray://host:10001`, or `local` to start a cluster on this machine.
        num_cpus: processors of a task, and its threads. 0 means all processors of the largest node, which is also the
            limit.
    """

    address: str
    num_cpus: int = 0

    @property
    def count(self) -> int:
        """See `Workers.count`."""
        return num_cores()

    @property
    def at_a_time(self) -> int:
        """See `Workers.at_a_time`: as many tasks as the nodes of the cluster have processors for."""
        nodes = _connected(self.address).nodes()
        num_cpus, _ = share_of(nodes, self.num_cpus, on_gpu=False)
        return max(1, sum(int(node["Resources"].get("CPU", 0)) // num_cpus for node in nodes if node["Alive"]))

    def run(self, work: BuildFunction[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:
        """See `Workers.run`. Work that is faster on a GPU gets one if the cluster has any."""
        ray = _connected(self.address)
        num_cpus, num_gpus = share_of(ray.nodes(), self.num_cpus, on_gpu=on_gpu)
        # Ray does not retry a task that died: the sensors do, and they limit the number of attempts.
        task = ray.remote(steps).options(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0).remote(work, num_cpus)
        try:
            for reference in task:
                step = ray.get(reference)
                if isinstance(step, TaskResult):
                    return step.result  # type: ignore[no-any-return]
                progress(step)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise BuildError(
                "the Ray node or process that built this partition is gone "
                f"({error}); build again: finished shards are kept"
            ) from error
        except BaseException:  # Ctrl-C, or Dagster ends the run
            ray.cancel(task, force=True)
            raise
        raise BuildError("the Ray task of this partition ended without a result; build again: finished shards are kept")

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """See `FileWorkers.map`. A task reads some files on one processor; Ray repeats a task whose node died."""
        ray = _connected(self.address)
        task = ray.remote(results_of).options(num_cpus=1, max_retries=_RETRIES)
        function_reference = ray.put(function)
        waiting = iter(items)
        under_way: list[Any] = []
        try:
            while True:
                window = _TASKS_PER_PROCESSOR * num_processors(ray.nodes())  # nodes come and go
                while len(under_way) < window and (some := list(islice(waiting, _ITEMS_PER_TASK))):
                    under_way.append(task.remote(function_reference, some))
                if not under_way:
                    return
                (done,), under_way = ray.wait(under_way, num_returns=1)
                yield from ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"the Ray nodes that read files of the source are gone ({error}); build again: what was read is kept"
            ) from error
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)


def results_of(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of one task."""
    return list(ReadingThreads(_THREADS_PER_TASK).map(function, items))


def num_processors(nodes: list[dict[str, Any]]) -> int:
    """Processors of all nodes that are alive, at least 1."""
    return max(1, int(sum(node["Resources"].get("CPU", 0) for node in nodes if node["Alive"])))


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The last step of a task, with the result of the work."""

    result: Any


def steps(work: BuildFunction[Any], num_threads: int) -> Iterator[int | TaskResult]:
    """Do the work on a node. Yields how many more samples are done, about twice a second, and `TaskResult` at the end.

    Raises:
        Exception: what `work` raises.
    """
    counts: SimpleQueue[int | None] = SimpleQueue()
    with ThreadPoolExecutor(1, "partition") as thread:
        result = thread.submit(work, num_threads=num_threads, progress=counts.put)
        result.add_done_callback(lambda _: counts.put(None))
        num_done, reported = 0, time.monotonic()
        while (count := counts.get()) is not None:
            num_done += count
            if time.monotonic() - reported > _REPORT_SECONDS:
                yield num_done
                num_done, reported = 0, time.monotonic()
        yield num_done
        yield TaskResult(result.result())


def share_of(nodes: list[dict[str, Any]], num_cpus: int, *, on_gpu: bool) -> tuple[int, int]:
    """Processors and GPUs of one task, at most what a node has: Ray would wait without end for a larger node."""
    there = [node["Resources"] for node in nodes if node["Alive"]]
    with_gpu = [node for node in there if node.get("GPU", 0) >= 1]
    chosen = with_gpu if on_gpu and with_gpu else there
    largest = max((int(node.get("CPU", 0)) for node in chosen), default=0)
    return max(1, min(num_cpus or largest, largest)), int(on_gpu and bool(with_gpu))


def _connected(address: str) -> Any:  # noqa: ANN401 - the module
    """The module `ray`, connected to the cluster.

    Raises:
        MissingDependencyError: Ray is not installed.
        BuildError: no cluster answers at `address`.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            f"partitions are built on the Ray cluster {address}, but Ray is not installed: "
            "make venv EXTRAS=dagster,transformers,ray"
        ) from error
    try:
        if ":" in address:
            place = urlsplit(address if "://" in address else f"//{address}")
            socket.create_connection((place.hostname or "", place.port or 0), _ANSWER_SECONDS).close()
        ray.init(address, ignore_reinit_error=True, log_to_driver=False, logging_level="warning")
    except (OSError, ValueError, RuntimeError) as error:
        raise BuildError(f"{address}: no Ray cluster answers at this address ({error})") from error
    return ray
