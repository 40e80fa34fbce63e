"""Materializes a data set within a test, in this process, with an instance of Dagster in memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.factory import build_assets
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.folder import storage_of, with_defaults
from headrace_dagster.sensors.factory import build_automation

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class MaterializedDataset:
    """A data set after it was materialized, and what can be done with it next.

    Attributes:
        dataset: the data set, with its asset keys and partitions.
        definitions: its assets, checks, sensors and schedules, and those that the test added.
        instance: knows what was materialized.
        results: of all runs, in order.
    """

    dataset: ProjectDataset
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    results: list[dg.ExecuteInProcessResult] = field(default_factory=list)

    def run(self, *keys: dg.AssetKey, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """Materialize assets with their checks, in one run. It does not raise: look at `success`."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance,
            asset_selection=list(keys),
            partition_key=partition,
            raise_on_error=False,
            run_config=_QUIET,
        )
        self.results.append(result)
        return result

    def tick(self, sensor: str, cursor: str | None = None) -> list[dg.RunRequest]:
        """One tick of a sensor, such as `source_changes` or `stale_partitions`. Returns the runs that it requests."""
        names = {sensor, f"{self.dataset.name}_{sensor}"}
        found = next(one for one in self.definitions.sensors or [] if one.name in names)
        context = dg.build_sensor_context(
            instance=self.instance, cursor=cursor, definitions=self.definitions, sensor_name=found.name
        )
        return list(found.evaluate_tick(context).run_requests or [])

    def failures(self) -> list[str]:
        """One message for each step that failed and each check that did not pass, in order."""
        steps = [event for result in self.results for event in result.all_events if event.is_step_failure]
        checks = [check for result in self.results for check in result.get_asset_check_evaluations()]
        return [
            *(_message(event) for event in steps),
            *(
                f"{check.asset_key.to_user_string()}: {check.check_name}: {check.description or 'failed'}"
                for check in checks
                if not check.passed
            ),
        ]


def _message(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    own = data.user_failure_data.description if data.user_failure_data else None
    return f"{event.step_key}: {own or (data.error.message.strip() if data.error else 'no reason given')}"


@contextmanager
def materialized_dataset(
    dataset: DatasetConfig | ProjectDataset,
    extra: dg.Definitions | None = None,
    *,
    resources: Mapping[str, object] | None = None,
    smoke_test: bool = False,
    root: Path | None = None,
) -> Iterator[MaterializedDataset]:
    """Materialize a data set and the assets of a test: catalog, all partitions, indexes. About a second.

    The catalog is one run. Each partition is one run: shards, latents, and the test's assets with the data set's
    partitions. Everything else is the last run. (Units whose centroids are fitted follow in runs of their own.) What
    fails is in `failures()`, and does not raise.

    Args:
        dataset: the data set, for example `headrace.testing.tiny_config(tmp_path)`.
        extra: assets, checks and resources of the test; they may depend on the data set's assets.
        resources: as for `headrace_dagster.dataset_definitions`.
        smoke_test: whether the smoke test and the report are made as well, which takes some seconds.
        root: folder to which relative URIs are relative; None for the current folder.

    Raises:
        ConfigError: a resource has an unknown key.
    """
    own = ProjectDataset.named(dataset) if isinstance(dataset, DatasetConfig) else dataset
    used = with_defaults(resources or {}, root or Path.cwd())
    automation = build_automation([own], storage_of(used))
    definitions = dg.Definitions.merge(build_assets([own], used), automation, extra or dg.Definitions())
    with dg.DagsterInstance.ephemeral() as instance:
        made = MaterializedDataset(own, definitions, instance)
        for number, assets in sorted(_waves(made, smoke_test=smoke_test).items()):
            for partition in own.partitions.get_partition_keys() if number % 2 else [None]:
                made.run(*assets, partition=partition)
        yield made


def _waves(made: MaterializedDataset, *, smoke_test: bool) -> dict[int, list[dg.AssetKey]]:
    """The assets by the number of their wave: odd for those with the data set's partitions. The catalog is wave 0.

    Three waves are enough, unless partitions need what is made of all of them, as units need fitted centroids.
    """
    graph, keys = made.definitions.resolve_asset_graph(), made.dataset.keys
    left_out = set() if smoke_test else {keys.loader_smoke_test, keys.dataset_report}
    numbers: dict[dg.AssetKey, int] = {}
    waves: dict[int, list[dg.AssetKey]] = {}
    for key in graph.toposorted_asset_keys:
        if key in left_out or key not in graph.materializable_asset_keys:
            continue
        is_partitioned = graph.get(key).partitions_def == made.dataset.partitions
        least = 1 if is_partitioned else 0 if key == keys.catalog else 2
        after = max((numbers[parent] for parent in graph.get(key).parent_keys if parent in numbers), default=0)
        numbers[key] = max(least, after + (after % 2 != is_partitioned))
        waves.setdefault(numbers[key], []).append(key)
    return waves
