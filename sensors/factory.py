"""What runs by itself for every data set: sensors, as `Definitions` beside those of the assets."""

from collections.abc import Sequence

import dagster as dg

from headrace.config import DatasetConfig
from sensors.source_changes import source_changes_sensor
from sensors.stale_partitions import stale_partitions_sensor


def build_automation(configs: Sequence[DatasetConfig]) -> dg.Definitions:
    """Sensors of these data sets; merged with the definitions of their assets."""
    return dg.Definitions(
        sensors=[
            sensor for config in configs for sensor in (source_changes_sensor(config), stale_partitions_sensor(config))
        ]
    )
