"""The numbers of the last snapshots are read from the events of their index."""

import dagster as dg

from headrace.assemble.drift import CatalogNumbers
from headrace_dagster.assets.drift_checks import last_numbers
from tests.support.instances import memory_instance

INDEX = dg.AssetKey(["a", "sizes_index"])


def numbers(hours):
    return CatalogNumbers(float(hours), 1.0, 2.0, 3.0, 0.5)


def test_each_of_the_last_five_snapshots_counts_once_newest_first():
    instance = memory_instance()

    def committed(snapshot, hours):
        metadata = {"snapshot": snapshot, **numbers(hours).to_dict()}
        instance.report_runless_asset_event(dg.AssetMaterialization(INDEX, metadata=metadata))

    assert last_numbers(instance, INDEX) == []
    instance.report_runless_asset_event(dg.AssetMaterialization(INDEX, metadata={"snapshot": 0}))  # without numbers
    assert last_numbers(instance, INDEX) == []
    for snapshot in range(1, 8):
        committed(snapshot, snapshot)
    committed(7, 70)
    assert last_numbers(instance, INDEX) == [numbers(hours) for hours in (70, 6, 5, 4, 3)]
