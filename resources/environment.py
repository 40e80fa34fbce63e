"""Chooses the workers that build partitions, this machine or a Ray cluster, from environment variables."""

from collections.abc import Mapping

from headrace.errors import ConfigError
from headrace_dagster.resources.ray_workers import RayWorkersResource
from headrace_dagster.resources.workers import Workers, WorkersResource

RAY_ADDRESS = "HEADRACE_RAY_ADDRESS"
RAY_CPUS = "HEADRACE_RAY_CPUS"


def workers_of(environment: Mapping[str, str]) -> Workers:
    """The Ray cluster that `HEADRACE_RAY_ADDRESS` names, or without it the threads of this machine (docs/scaling.md).

    Raises:
        ConfigError: `HEADRACE_RAY_CPUS` is not a number.
    """
    address, cpus = environment.get(RAY_ADDRESS), environment.get(RAY_CPUS) or "0"
    if not address:
        return WorkersResource()
    if not cpus.isdecimal():
        raise ConfigError(f"{RAY_CPUS}={cpus}: expected a number of processors for each task, 0 for a whole node")
    return RayWorkersResource(address=address, num_cpus=int(cpus))


def cluster_of(workers: Workers) -> str | None:
    """The cluster that builds partitions, for messages; None for this machine."""
    return f"the Ray cluster {workers.address}" if isinstance(workers, RayWorkersResource) else None


def counted_threads(workers: Workers) -> str:
    """The threads of this machine, for messages; those of a cluster are not known here."""
    if cluster_of(workers) is not None:
        return "with the threads of its nodes"
    return f"with {workers.count} threads" if workers.count > 1 else "with 1 thread"
