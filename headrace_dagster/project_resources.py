"""The component `headrace_dagster.Resources`: how the data sets of a project are built, for all of them."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from headrace.errors import ConfigError
from headrace_dagster.assets.factory import default_resources
from headrace_dagster.resources.encoders import EncodersResource
from headrace_dagster.resources.ray_workers import RayWorkersResource
from headrace_dagster.resources.workers import WorkersResource


class EncoderSettings(dg.Resolvable, dg.Model):
    """Devices and speed of encoders: the fields of `EncodersResource`."""

    devices: tuple[str, ...] = ()
    batch_seconds: float | None = None
    compile: bool | None = None
    num_threads: int = 0


class WorkerSettings(dg.Resolvable, dg.Model):
    """Workers that build partitions: threads of this machine, or a Ray cluster if `ray_address` is given."""

    num_threads: int = 0
    ray_address: str | None = None
    ray_cpus: int = 0


class Resources(dg.Component, dg.Resolvable, dg.Model):
    """Settings of the machines for all data sets of a project: devices of encoders, threads, a Ray cluster.

    At most one in a project. What is left out has its default; a run's own settings in the launchpad have precedence.
    """

    encoders: EncoderSettings | None = None
    workers: WorkerSettings | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster's signature
        """Nothing: the data sets of the project bring the resources, with these settings."""
        return dg.Definitions()

    def overrides(self) -> dict[str, object]:
        """The resources that are configured, by resource key."""
        found: dict[str, object] = {}
        if self.encoders is not None:
            found["headrace_encoders"] = EncodersResource(**self.encoders.model_dump(mode="json"))
        if self.workers is not None and self.workers.ray_address:
            address, num_cpus = self.workers.ray_address, self.workers.ray_cpus
            found["headrace_workers"] = RayWorkersResource(address=address, num_cpus=num_cpus)
        elif self.workers is not None:
            found["headrace_workers"] = WorkersResource(num_threads=self.workers.num_threads)
        return found


def resources_of(settings: Sequence[Resources], root: Path) -> dict[str, object]:
    """The resources of a project.

    Raises:
        ConfigError: there are several `Resources` components.
    """
    if len(settings) > 1:
        raise ConfigError("this project has several components headrace_dagster.Resources; merge them into one")
    own = settings[0].overrides() if settings else {}
    return {**default_resources(root), **own}
