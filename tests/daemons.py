"""A daemon in this process: ticks the sensors of a project and makes the runs that they ask for, counting them."""

import contextlib
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

import dagster as dg

from assets.factory import build_definitions
from headrace.waves import Limits, Patience, decide
from resources.storage import StorageResource
from sensors.factory import build_automation
from tests.instances import memory_instance
from tests.projects import Project

_PATIENCE = Patience((3600.0, 3600.0))  # however long a test takes, what failed still backs off


@dataclass(frozen=True)
class Made:
    """A run: what it made, of which partition, and whether it came off."""

    assets: frozenset[str]
    partition: str | None
    success: bool


@dataclass
class Daemon:
    """Ticks and runs until nothing is left to do. The instance outlives `reload`, as it does a restart.

    A look at the source may take `look_seconds`.
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
        """Load the definitions again, as after a change of the YAML or a restart."""
        self.config = self.project.config()
        self.definitions = dg.Definitions.merge(
            build_definitions([self.config], {"storage": self.storage}),
            build_automation([self.config], self.project.datasets, self.storage),
        )
        self.job = self.definitions.resolve_implicit_global_asset_job_def()

    def restart(self) -> None:
        """Forget everything that a daemon may forget: cursors too."""
        self.cursors.clear()
        self.reload()

    def tick(self, name: str) -> list[dg.RunRequest]:
        """One tick of a sensor; its requests are not run."""
        sensor = next(found for found in self.definitions.sensors if found.name in {name, f"tones_{name}"})
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
        """Let no tick decide otherwise because the machine is busy."""
        slow_decide = partial(decide, limits=Limits(patience=_PATIENCE))
        with (
            mock.patch("sensors.source_changes._LOOK_SECONDS", self.look_seconds),
            mock.patch("sensors.source_changes.Patience", return_value=_PATIENCE),
            mock.patch("sensors.stale_partitions.decide", slow_decide),
        ):
            yield

    def run(self, request: dg.RunRequest) -> Made:
        """Make a run that was asked for."""
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
        """Tick until two rounds in a row ask for nothing. Returns the runs, in order."""
        made: list[Made] = []
        quiet = 0
        while quiet < 2 and len(made) < most:
            requests = [request for name in ("source_changes", "stale_partitions") for request in self.tick(name)]
            made += [self.run(request) for request in requests]
            quiet = 0 if requests else quiet + 1
        return made


def partitions_made(made: list[Made]) -> list[str]:
    """The partitions whose audio was made, in order, as often as it was."""
    return [run.partition for run in made if "audio_shards" in run.assets]


def count(made: list[Made], asset: str) -> int:
    """How many runs made an asset."""
    return sum(asset in run.assets for run in made)
