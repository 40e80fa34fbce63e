"""What the environment says of the machines: where partitions are made. What the data are is the YAML's business."""

from collections.abc import Mapping

from headrace.errors import ConfigError
from resources.ray_workers import RayWorkersResource
from resources.workers import Workers, WorkersResource

RAY_ADDRESS = "HEADRACE_RAY_ADDRESS"
RAY_CPUS = "HEADRACE_RAY_CPUS"


def workers_of(environment: Mapping[str, str]) -> Workers:
    """A Ray cluster's nodes where `HEADRACE_RAY_ADDRESS` names one, else this machine's threads (docs/scaling.md).

    Raises:
        ConfigError: `HEADRACE_RAY_CPUS` is no number.
    """
    address, cpus = environment.get(RAY_ADDRESS), environment.get(RAY_CPUS) or "0"
    if not address:
        return WorkersResource()
    if not cpus.isdecimal():
        raise ConfigError(f"{RAY_CPUS}={cpus}: expected a number of processors for each task, 0 for a whole node")
    return RayWorkersResource(address=address, num_cpus=int(cpus))
