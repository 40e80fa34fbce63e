"""The partitions of `recordings` whose fingerprint is new are reported, and no others."""

import dagster as dg

from headrace_dagster.assets.recordings import changed_partitions
from headrace_dagster.resources.dagster_internals.event_log import DATA_VERSION_TAG
from tests.support.instances import memory_instance

KEY = dg.AssetKey(["a", "recordings"])


def told(events):
    return [(type(event).__name__, event.partition, event.tags[DATA_VERSION_TAG]) for event in events]


def test_only_what_differs_is_reported_and_observations_come_first():
    instance = memory_instance()
    first = changed_partitions(instance, KEY, {"p": "1", "q": "2"})
    assert told(first) == [
        ("AssetObservation", "p", "1"),
        ("AssetObservation", "q", "2"),
        ("AssetMaterialization", "p", "1"),
        ("AssetMaterialization", "q", "2"),
    ]
    for event in first:
        instance.report_runless_asset_event(event)
    assert changed_partitions(instance, KEY, {"p": "1", "q": "2"}) == []
    changed = changed_partitions(instance, KEY, {"p": "3", "q": "2"})
    assert told(changed) == [("AssetObservation", "p", "3"), ("AssetMaterialization", "p", "3")]
    instance.report_runless_asset_event(changed[0])  # killed between the two
    assert told(changed_partitions(instance, KEY, {"p": "3", "q": "2"})) == [("AssetMaterialization", "p", "3")]
