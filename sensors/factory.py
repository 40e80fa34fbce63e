"""What runs by itself: sensors and schedules, as `Definitions` beside those of the assets."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from headrace.config import DatasetConfig
from resources.storage import StorageResource
from sensors.alerts import alerts_sensor
from sensors.definitions_changes import definitions_changes_sensor
from sensors.schedules import dataset_schedules
from sensors.source_changes import source_changes_sensor
from sensors.stale_partitions import stale_partitions_sensor


def build_automation(
    configs: Sequence[DatasetConfig], folder: Path | None = None, storage: StorageResource | None = None
) -> dg.Definitions:
    """Sensors, schedules and their jobs, to be merged with the definitions of the assets.

    Args:
        configs: the data sets.
        folder: where their YAML files lie, to watch; None watches nothing.
        storage: the resource that the assets have, if it is another than the default one.
    """
    stores = storage or StorageResource()
    makers = (source_changes_sensor, stale_partitions_sensor)
    dataset_sensors = [make(config, stores, folder) for config in configs for make in makers]
    watch = [] if folder is None else [definitions_changes_sensor(folder, configs)]
    return dg.Definitions(
        sensors=[*dataset_sensors, alerts_sensor({config.name: config for config in configs}), *watch],
        schedules=[schedule for config in configs for schedule in dataset_schedules(config)],
    )
