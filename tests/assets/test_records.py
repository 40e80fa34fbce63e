"""Records of a data set in Dagster are compared with the output."""

from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.stores.storage import open_storage
from headrace_dagster.assets.events import INPUTS_TAG, snapshot_inputs
from headrace_dagster.assets.records import AssetRecords, is_committed, newest_snapshot
from headrace_dagster.resources.dagster_internals.event_log import DATA_VERSION_TAG
from tests.support.instances import memory_instance

KEY = dg.AssetKey(["a", "shards"])
CHECK, REPORT = dg.AssetCheckKey(KEY, "conservation"), dg.AssetCheckKey(KEY, "new_rejects")
MANIFESTS = {name: SimpleNamespace(number=1, digest=f"digest of {name}") for name in ("p", "q")}


@pytest.fixture(scope="module")
def memory():
    return memory_instance()


@pytest.fixture
def instance(memory):
    memory.wipe()
    return memory


def made(instance, **of):
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, **of))


def checked(instance, check, passed, **of):
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(KEY, check.name, passed, {}, **of))


def test_a_partition_is_recorded_with_its_version_and_passed_checks(instance):
    records = AssetRecords(instance, [CHECK])
    assert records.unrecorded(KEY, MANIFESTS) == {"p", "q"}
    for name, manifest in MANIFESTS.items():
        made(instance, partition=name, tags={DATA_VERSION_TAG: manifest.digest})
    assert records.unrecorded(KEY, MANIFESTS) == {"p", "q"}
    assert AssetRecords(instance, []).unrecorded(KEY, MANIFESTS) == set()
    checked(instance, CHECK, passed=True, partition="p")
    checked(instance, CHECK, passed=False, partition="q")
    assert records.unrecorded(KEY, MANIFESTS) == {"q"}
    assert records.unrecorded(KEY, {"p": SimpleNamespace(digest="another")}) == {"p"}


def test_an_asset_is_made_from_its_inputs_if_its_checks_did_not_fail(instance):
    records = AssetRecords(instance, [CHECK, REPORT])
    assert not records.is_made_from(KEY, "x")
    made(instance, tags={INPUTS_TAG: "x"})
    assert not records.is_made_from(KEY, "x")  # its check did not run
    checked(instance, CHECK, passed=True)
    assert records.is_made_from(KEY, "x")
    assert not records.is_made_from(KEY, "y")
    checked(instance, CHECK, passed=False, severity=dg.AssetCheckSeverity.WARN)
    assert records.is_made_from(KEY, "x")
    checked(instance, CHECK, passed=False)
    assert not records.is_made_from(KEY, "x")


def test_reports_of_regressions_make_nothing_stale(instance):
    made(instance, tags={INPUTS_TAG: "x"})
    checked(instance, REPORT, passed=False)
    assert AssetRecords(instance, [REPORT]).is_made_from(KEY, "x")


def test_an_index_is_that_of_its_snapshot(instance):
    snapshots = [SimpleNamespace(snapshot=SimpleNamespace(digest=text)) for text in ("1", "2")]
    made(instance, tags={INPUTS_TAG: snapshot_inputs(snapshots[0].snapshot)})
    assert [AssetRecords(instance, []).has_index(KEY, one) for one in snapshots] == [True, False]


def test_a_snapshot_is_committed_with_its_catalog_its_manifests_and_its_audio():
    found = SimpleNamespace(
        snapshot=SimpleNamespace(catalog="c", manifests={"p": 1, "q": 1}, origin={"audio_snapshot": 7})
    )
    assert is_committed(found, "c", MANIFESTS, 7)
    assert not is_committed(found, "d", MANIFESTS, 7)
    assert not is_committed(found, "c", {"p": MANIFESTS["p"]}, 7)
    assert not is_committed(found, "c", MANIFESTS, 8)
    assert not is_committed(None, "c", MANIFESTS, 7)


def test_before_the_first_commit_there_is_no_newest_snapshot():
    assert newest_snapshot(open_storage("memory://")) is None
