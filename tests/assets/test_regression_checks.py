"""Checks that report what became worse since the last report. All of them only warn."""

import dagster as dg
import pytest

from headrace.catalog.compared.regressions import Regressions
from headrace_dagster.assets.regression_checks import (
    DROPPED_AUDIO,
    NEW_REJECTS,
    REGRESSION_CHECKS,
    regression_result,
    regression_spec,
    types_result,
)

KEY = dg.AssetKey(["a", "catalog"])
NOTHING = Regressions((), (), (), 3600.0, 3600.0, None, is_new=False)
WORSE = Regressions((("a.wav", "empty"),), (("b.wav", "short"),), ("c.wav",), 7200.0, 3600.0, None, is_new=True)


def values(result):
    return {name: value.value for name, value in result.metadata.items()}


@pytest.mark.parametrize("name", [NEW_REJECTS, DROPPED_AUDIO])
def test_without_regressions_a_check_passes(name):
    result = regression_result(name, KEY, NOTHING)
    assert (result.passed, result.description) == (True, None)


def test_new_rejects_are_listed_and_counted():
    result = regression_result(NEW_REJECTS, KEY, WORSE)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert result.description == (
        "2 files or rows are newly rejected, 1 of them usable until now\n\n"
        "- a.wav, usable until now: empty\n- b.wav: short"
    )
    assert values(result) == {"rejected_usable_before": 1, "rejected_never_usable": 1}


def test_dropped_audio_is_shown_in_hours():
    result = regression_result(DROPPED_AUDIO, KEY, WORSE)
    assert not result.passed
    assert "c.wav" in result.description
    assert values(result) == {"recordings_gone": 1, "audio_hours": 1.0, "earlier_audio_hours": 2.0}


def test_columns_of_another_type_are_a_warning():
    assert types_result(KEY, []).passed
    changed = types_result(KEY, ["a was int", "b was text"])
    assert (changed.passed, changed.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert changed.description == "a was int\nb was text"
    assert values(changed) == {"changed_types": 2}


@pytest.mark.parametrize("name", sorted(REGRESSION_CHECKS))
def test_each_check_has_a_description_and_blocks_nothing(name):
    spec = regression_spec(name, KEY)
    assert spec.description
    assert not spec.blocking
