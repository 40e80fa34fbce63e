"""An asset stops while its inputs have a failed check, also one of an earlier run."""

import dagster as dg
import pytest

from headrace.config.content import LatentsConfig
from headrace_dagster.assets.gates import (
    SHARD_CHECKS,
    alignment_check,
    checks_of_latents,
    failed_catalog,
    failed_shards,
    pass_catalog,
    pass_shards,
)
from tests.support.instances import memory_instance

CATALOG, SHARDS = dg.AssetKey(["a", "catalog"]), dg.AssetKey(["a", "audio_shards"])


@pytest.fixture(scope="module")
def memory():
    return memory_instance()


@pytest.fixture
def instance(memory):
    memory.wipe()
    return memory


def checked(instance, key, name, passed, partition=None, severity=dg.AssetCheckSeverity.ERROR):  # noqa: PLR0913, PLR0917
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(key, name, passed, {}, severity=severity, partition=partition)
    )


def test_the_last_result_of_each_check_of_the_catalog_counts(instance):
    pass_catalog(instance, CATALOG)
    checked(instance, CATALOG, "conservation", passed=False)
    checked(instance, CATALOG, "hours_drift", passed=False)
    assert failed_catalog(instance, CATALOG) == ["conservation"]
    with pytest.raises(dg.Failure, match=r"a/catalog: checks failed: conservation; readers keep the previous"):
        pass_catalog(instance, CATALOG)
    checked(instance, CATALOG, "conservation", passed=True)
    pass_catalog(instance, CATALOG)


def test_a_failed_partition_stops_only_what_needs_it(instance):
    for number in range(7):
        checked(instance, SHARDS, "conservation", passed=number == 0, partition=f"train-{number:04d}")
    checked(instance, SHARDS, "index_matches_tar", passed=False, partition="train-0001")
    pass_shards(instance, SHARDS, ["train-0000", "train-0009"])
    assert failed_shards(instance, SHARDS, ["train-0000", "train-0002"]) == {"train-0002": ["conservation"]}
    with pytest.raises(dg.Failure) as error:
        pass_shards(instance, SHARDS, [f"train-{number:04d}" for number in range(7)])
    message = str(error.value.description)
    assert "train-0001 (conservation, index_matches_tar)" in message
    assert "train-0005 (conservation) and 1 more" in message
    assert not error.value.allow_retries


def test_the_gate_of_one_partition_reads_nothing_of_others(instance, monkeypatch):
    """A run of many partitions asks for each of them."""
    for number in range(5):
        checked(instance, SHARDS, "conservation", passed=number != 3, partition=f"train-{number:04d}")
    store, read = instance.event_log_storage, []
    asked = store.get_asset_check_partition_info

    def counted(*args, **named):
        read.extend(found := asked(*args, **named))
        return found

    monkeypatch.setattr(store, "get_asset_check_partition_info", counted)
    assert failed_shards(instance, SHARDS, {"train-0003"}) == {"train-0003": ["conservation"]}
    assert failed_shards(instance, SHARDS, ["train-0004"]) == {}
    assert len(read) == 2


def test_each_aligned_column_has_a_check_with_a_distinct_valid_name():
    latents = LatentsConfig(name="mel", encoder={"kind": "log_mel"}, frame_aligned=["f0", "a b", "a-b"])
    checks = checks_of_latents(latents)
    assert checks[: len(SHARD_CHECKS)] == SHARD_CHECKS
    assert checks[len(SHARD_CHECKS)] == alignment_check("f0") == "frame_aligned_f0"
    assert len(set(checks)) == len(SHARD_CHECKS) + 3
    assert all(name.replace("_", "a").isalnum() for name in checks)
