"""Builds the sensors, schedules and their jobs of data sets as Dagster `Definitions`."""

from collections.abc import Sequence

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.alerts import alerts_sensor
from headrace_dagster.sensors.definitions_changes import definitions_changes_sensor
from headrace_dagster.sensors.loaded import ConfigOrigin, DatasetFolder
from headrace_dagster.sensors.schedules import dataset_schedules
from headrace_dagster.sensors.source_changes import source_changes_sensor
from headrace_dagster.sensors.stale_partitions import stale_partitions_sensor


def build_automation(
    datasets: Sequence[ProjectDataset], storage: StorageResource, origin: DatasetFolder | None = None
) -> dg.Definitions:
    """Sensors, schedules and their jobs of several data sets, to be merged with the definitions of their assets.

    Args:
        datasets: the data sets.
        storage: the resource that the assets have.
        origin: the folder of the YAML files, to be watched; None watches nothing.
    """
    watch = [] if origin is None else [definitions_changes_sensor(origin, [dataset.config for dataset in datasets])]
    own = [dataset_automation(dataset, storage, origin) for dataset in datasets]
    return dg.Definitions.merge(*own, dg.Definitions(sensors=[alerts_sensor(datasets), *watch]))


def dataset_automation(
    dataset: ProjectDataset, storage: StorageResource, origin: ConfigOrigin | None = None
) -> dg.Definitions:
    """The sensors and schedules of one data set, without those that all data sets share."""
    return dg.Definitions(
        sensors=[
            source_changes_sensor(dataset, storage, origin),
            stale_partitions_sensor(dataset, storage, origin),
        ],
        schedules=dataset_schedules(dataset),
    )
