"""Partitions made on the nodes of a Ray cluster, each as one task.

Owns sending the work there, what it asks of a node, and bringing back progress, result or error. Dagster stays where it
is: nodes see neither its instance nor its database, only the source and the output, which must be reachable under the
same names. They commit by themselves, as every build does, so a lost node costs the shards that it had in flight.
"""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from headrace.errors import BuildError, MissingDependencyError
from headrace.machine import num_cores
from resources.workers import Result, Work

_REPORT_SECONDS = 0.5
_ANSWER_SECONDS = 10.0  # Ray itself asks again and again for ten minutes, and says so line by line


class RayWorkersResource(dg.ConfigurableResource):
    """Tasks of a Ray cluster.

    Attributes:
        address: of the cluster, as `ray.init` takes it: `auto` on one of its nodes, `host:6379`, `ray://host:10001`, or
            `local` for one of this machine's own.
        num_cpus: processors of a task, and its threads; 0 means all of the largest node, more than those as many.
    """

    address: str
    num_cpus: int = 0

    @property
    def count(self) -> int:
        """See `Workers.count`."""
        return num_cores()

    def run(self, work: Work[Result], progress: Callable[[int], None], *, on_gpu: bool = False) -> Result:
        """See `Workers.run`. Work that is faster on a GPU has one where the cluster has any."""
        ray = _connected(self.address)
        num_cpus, num_gpus = share_of(ray.nodes(), self.num_cpus, on_gpu=on_gpu)
        # One that died is not tried again here: the sensors do that, and know when to stop.
        task = ray.remote(steps).options(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0).remote(work, num_cpus)
        try:
            for reference in task:
                step = ray.get(reference)
                if isinstance(step, Done):
                    return step.result  # type: ignore[no-any-return]
                progress(step)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"the node that made it is gone, or its process ({error}); build again: finished shards are kept"
            ) from error
        except BaseException:  # Ctrl-C, or Dagster ends the run
            ray.cancel(task, force=True)
            raise
        raise BuildError("the task on the cluster ended without a result; build again")


@dataclass(frozen=True, slots=True)
class Done:
    """The last step: what the work came to."""

    result: Any


def steps(work: Work[Any], num_threads: int) -> Iterator[int | Done]:
    """Do the work, on the node: numbers of samples that are done, now and then, and the result. Raises what it does."""
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
        yield Done(result.result())


def share_of(nodes: list[dict[str, Any]], num_cpus: int, *, on_gpu: bool) -> tuple[int, int]:
    """Processors and GPUs of one task: no more than a node has, because Ray would wait for a larger one for ever."""
    there = [node["Resources"] for node in nodes if node["Alive"]]
    with_gpu = [node for node in there if node.get("GPU", 0) >= 1]
    chosen = with_gpu if on_gpu and with_gpu else there
    largest = max((int(node.get("CPU", 0)) for node in chosen), default=0)
    return max(1, min(num_cpus or largest, largest)), int(on_gpu and bool(with_gpu))


def _connected(address: str) -> Any:  # noqa: ANN401 - the module
    """Ray, connected.

    Raises:
        MissingDependencyError: it is not installed.
        BuildError: there is no such cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            f"partitions are to be made on the Ray cluster {address}, and Ray is not installed: "
            "make venv EXTRAS=build,transformers,ray"
        ) from error
    try:
        if ":" in address:
            place = urlsplit(address if "://" in address else f"//{address}")
            socket.create_connection((place.hostname or "", place.port or 0), _ANSWER_SECONDS).close()
        ray.init(address, ignore_reinit_error=True, log_to_driver=False, logging_level="warning")
    except (OSError, ValueError, RuntimeError) as error:
        raise BuildError(f"{address}: no Ray cluster answers there ({error})") from error
    return ray
