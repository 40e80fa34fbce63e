"""A run that has built a partition does not read its shards again to check them, unless they were found damaged."""

import dagster as dg
import pytest

from headrace_dagster.assets.build_comparison import BuildComparison, unchecked, verdict
from tests.support.instances import memory_instance

KEY, NUMBERS = dg.AssetKey(["a", "audio_shards"]), {"shards": 9}


@pytest.fixture(scope="module")
def memory():
    return memory_instance()


@pytest.fixture
def instance(memory):
    memory.wipe()
    return memory


def comparison(instance, written):
    return BuildComparison(instance, "this run", KEY, "p", written)


def not_called():
    raise AssertionError("the shards were read")


def checked(instance, passed):
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(KEY, "sound", passed, {}, partition="p"))


def test_checks_of_a_step_that_made_nothing_pass_and_say_why():
    specs = [dg.AssetCheckSpec(name, asset=KEY) for name in ("fits", "matches")]
    found = [(one.check_name, one.asset_key, one.passed, one.description) for one in unchecked(specs, "not yet")]
    assert found == [("fits", KEY, True, "not yet"), ("matches", KEY, True, "not yet")]


def test_a_check_alone_reads_all_shards(instance):
    result = comparison(instance, None).verdict("sound", lambda: ["a: short"], NUMBERS)
    assert (result.passed, result.description) == (False, "a: short")
    assert {name: value.value for name, value in result.metadata.items()} == {"shards": 9}


def test_what_the_build_has_compared_is_not_read(instance):
    result = comparison(instance, 2).verdict("sound", not_called, NUMBERS)
    assert result.passed
    assert {name: value.value for name, value in result.metadata.items()} == {
        "shards": 9,
        "shards_compared": 2,
    }
    checked(instance, passed=True)
    assert comparison(instance, 2).verdict("sound", not_called, NUMBERS).passed


@pytest.mark.parametrize("written", [None, 0, 2, 9], ids=["alone", "all reused", "some written", "all written"])
@pytest.mark.parametrize("before", [None, True, False], ids=["no result", "passed", "failed"])
def test_shards_are_read_if_the_check_runs_alone_or_failed_the_last_time(instance, before, written):
    """A new instance has no result: it opens no shard of an existing output, of which all shards are used again."""
    if before is not None:
        checked(instance, passed=before)
    is_read = not comparison(instance, written).verdict("sound", lambda: ["damaged"], NUMBERS).passed
    assert is_read == (written is None or before is False)


def test_only_the_build_of_the_same_run_counts(instance):
    assert BuildComparison.by_the_build(instance, "", KEY, "p").written is None
    made = dg.AssetMaterialization(KEY, partition="p", metadata={"shards_written": 3})
    instance.report_runless_asset_event(made)
    assert BuildComparison.by_the_build(instance, "", KEY, "p").written == 3  # an event without a run has this id
    assert BuildComparison.by_the_build(instance, "another", KEY, "p").written is None
    assert BuildComparison.by_the_build(instance, "", KEY, "q").written is None


def test_a_verdict_lists_twenty_faults():
    result = verdict([f"fault {number}" for number in range(25)], {})
    assert not result.passed
    assert "- fault 19\n… and 5 more" in result.description
    assert verdict([], {}).passed
