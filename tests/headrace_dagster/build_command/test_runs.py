"""Failures of a run are one message for each step or check, in the words of Headrace where it has some."""

import dagster as dg
import pytest

from headrace_dagster.build_command.runs import RunOutcome, _audio_of, _faults, _seconds_of, _warnings
from tests.support.instances import memory_instance

pytestmark = pytest.mark.medium

WARN = dg.AssetCheckSeverity.WARN


def executed(*assets):
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return dg.materialize(list(assets), run_config=quiet, raise_on_error=False, instance=memory_instance())


def checked(name, passed=True, severity=dg.AssetCheckSeverity.ERROR, said=None, blocking=False):
    @dg.asset(name=name, check_specs=[dg.AssetCheckSpec("sound", asset=name, blocking=blocking)])
    def made():
        result = dg.AssetCheckResult(passed=passed, severity=severity, description=said)
        return dg.MaterializeResult(metadata={"samples_encoded": 3}, check_results=[result])

    return made


def failing(name, error):
    @dg.asset(name=name)
    def made():
        raise error from ValueError("the cause")

    return made


@pytest.mark.parametrize(
    ("asset", "faults"),
    [
        (checked("a"), []),
        (checked("a", passed=False, said="a.tar: short"), ["check sound failed: a.tar: short"]),
        (checked("a", passed=False, blocking=True), ["check sound failed: see the run"]),
        (checked("a", passed=False, severity=WARN), []),
        (failing("a", dg.Failure("in words", allow_retries=False)), ["in words"]),
        (failing("a", ZeroDivisionError("odd")), ["unexpected: ValueError: the cause"]),
    ],
    ids=["sound", "a check", "a blocking check", "a warning", "a failure", "an error"],
)
def test_faults_are_named(asset, faults):
    result = executed(asset)
    assert _faults(result) == faults
    assert _faults(result, apart=[dg.AssetKey("a")]) == []
    assert _faults(result, only=dg.AssetKey("b")) == []


def test_warnings_are_those_of_checks_that_only_warn():
    assert list(_warnings(executed(checked("a", passed=False, severity=WARN, said="less")))) == ["check sound: less"]
    assert list(_warnings(executed(checked("a", passed=False)))) == []


def test_counts_and_seconds_are_those_of_the_asset():
    result = executed(checked("a"))
    assert _audio_of(result, dg.AssetKey("a")).num_encoded == 3
    assert _audio_of(result, dg.AssetKey("b")).num_encoded == 0
    assert _seconds_of(result, dg.AssetKey("a")) >= 0
    assert _seconds_of(result, dg.AssetKey("b")) is None


def test_an_outcome_is_named_by_asset_and_partition():
    key = dg.AssetKey(["demo", "audio_shards"])
    assert RunOutcome(key, "train-0000", "id", (), 1.0).name == "demo/audio_shards [train-0000]"
    assert RunOutcome(key, None, "id", (), 1.0).name == "demo/audio_shards"
