"""An in-process daemon: ticks the sensors of a project, executes the runs that they request, and counts them."""

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import dagster as dg

from headrace.assemble.waves import RunPatience, decide
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.factory import build_automation
from headrace_dagster.sensors.loaded import DatasetFolder
from tests.support.instances import memory_instance
from tests.support.projects import Project, assets_of

_PATIENCE = RunPatience((3600.0, 3600.0))  # longer than any test, so that failed work is still backing off


@dataclass(frozen=True)
class Made:
    """A run: what it made, of which partition, and whether it succeeded."""

    assets: frozenset[str]
    partition: str | None
    success: bool


@dataclass
class Daemon:
    """Ticks and runs until nothing is left to do. The instance survives `reload`, as it survives a restart.

    Listing the source may take `look_seconds`.
    """

    project: Project
    instance: dg.DagsterInstance = field(default_factory=memory_instance)
    cursors: dict[str, str | None] = field(default_factory=dict)
    reasons: dict[str, str | None] = field(default_factory=dict)
    storage: StorageResource = field(default_factory=StorageResource)
    look_seconds: float = 600.0

    def __post_init__(self) -> None:
        self.reload()

    def reload(self) -> None:
        """Load the definitions again, as after a changed YAML or a restart."""
        self.config = self.project.config()
        folder = DatasetFolder(self.project.datasets, Path())
        self.definitions = dg.Definitions.merge(
            assets_of(self.config, resources={"headrace_storage": self.storage}),
            build_automation([ProjectDataset.named(self.config)], self.storage, folder),
        )
        self.job = self.definitions.resolve_implicit_global_asset_job_def()

    def restart(self) -> None:
        """Forget everything that a daemon may forget, including cursors."""
        self.cursors.clear()
        self.reload()

    def tick(self, name: str) -> list[dg.RunRequest]:
        """One tick of a sensor. Its run requests are not executed."""
        sensor = next(
            found for found in self.definitions.sensors if found.name in {f"headrace_{name}", f"tones_{name}"}
        )
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursors.get(name), definitions=self.definitions, sensor_name=sensor.name
        )
        with self._at_leisure():
            data = sensor.evaluate_tick(context)
        self.cursors[name] = data.cursor
        self.reasons[name] = data.skip_message
        return list(data.run_requests or [])

    @contextlib.contextmanager
    def _at_leisure(self):
        """Keep a busy machine from changing the decisions of a tick."""

        def slow_decide(situation, limits):
            return decide(situation, replace(limits, patience=_PATIENCE))

        with (
            mock.patch("headrace_dagster.sensors.source_listing._LOOK_SECONDS", self.look_seconds),
            mock.patch("headrace_dagster.sensors.source_changes.RunPatience", return_value=_PATIENCE),
            mock.patch("headrace_dagster.sensors.stale_partitions.decide", slow_decide),
        ):
            yield

    def run(self, request: dg.RunRequest) -> Made:
        """Execute a requested run."""
        result = self.job.execute_in_process(
            instance=self.instance,
            asset_selection=list(request.asset_selection),
            partition_key=request.partition_key,
            tags=dict(request.tags),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        names = frozenset("/".join(key.path[1:]) for key in request.asset_selection)
        return Made(names, request.partition_key, result.success)

    def settle(self, most: int = 40) -> list[Made]:
        """Tick until two rounds in a row request nothing. Returns the runs in order."""
        made: list[Made] = []
        quiet = 0
        while quiet < 2 and len(made) < most:
            requests = [request for name in ("source_changes", "stale_partitions") for request in self.tick(name)]
            made += [self.run(request) for request in requests]
            quiet = 0 if requests else quiet + 1
        return made


def partitions_made(made: list[Made]) -> list[str]:
    """The partitions whose audio was made, in order, with repetitions."""
    return [run.partition for run in made if "audio_shards" in run.assets]


def count(made: list[Made], asset: str) -> int:
    """The number of runs that made an asset."""
    return sum(asset in run.assets for run in made)
