"""Tests of `headrace_dagster.assets.keys`."""

import dagster as dg

from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.sensors.due_work import DueWork


def test_hours_are_unknown_by_default():
    assert DueWork({}).hours == 0
    assert isinstance(DatasetKeys(("demo",)).sizes_index, dg.AssetKey)
