"""A catalog is compared with those of the last snapshots: hours, lengths and the share of rejected files."""

from types import SimpleNamespace

import pytest

from headrace.assemble.drift import CatalogNumbers, catalog_numbers, duration_drift, hours_drift, rejected_drift
from headrace.config.operation import DriftConfig
from headrace.config.source import SampleKind

LIMITS = DriftConfig(hours=0.5, durations=0.25, rejected=0.1)


def numbers(hours=10.0, durations=(1.0, 2.0, 4.0), rejected=0.0):
    return CatalogNumbers(hours, *durations, rejected)


BEFORE = [numbers(hours, rejected=0.2) for hours in (10.0, 8.0, 100.0)]


@pytest.mark.parametrize("compare", [hours_drift, duration_drift, rejected_drift])
def test_before_the_first_snapshot_nothing_drifts(compare):
    assert compare(numbers(1000.0, (9.0, 9.0, 9.0), 1.0), [], LIMITS) == []


@pytest.mark.parametrize(("hours", "num_faults"), [(0.0, 0), (15.0, 0), (15.1, 1)])
def test_much_more_audio_than_the_median_is_a_fault_and_less_is_none(hours, num_faults):
    assert len(hours_drift(numbers(hours), BEFORE, LIMITS)) == num_faults


def test_lengths_may_change_in_both_directions_by_a_share():
    assert duration_drift(numbers(durations=(1.25, 1.5, 4.0)), BEFORE, LIMITS) == []
    assert duration_drift(numbers(durations=(1.3, 2.0, 2.9)), BEFORE, LIMITS) == [
        "duration_p10_seconds is 1.300, it was 1.000: a change of more than 25%",
        "duration_p90_seconds is 2.900, it was 4.000: a change of more than 25%",
    ]


@pytest.mark.parametrize(("share", "num_faults"), [(0.0, 0), (0.3, 0), (0.31, 1)])
def test_a_larger_share_of_rejects_is_a_fault(share, num_faults):
    assert len(rejected_drift(numbers(rejected=share), BEFORE, LIMITS)) == num_faults


def header(samples, rejects):
    totals = SimpleNamespace(rejects=rejects, durations=(1.0, 2.0, 3.0))
    return SimpleNamespace(
        samples=samples, totals=totals, num_rows=6, num_rejected_files=4, num_rejected_rows=2, seconds=7200.0
    )


@pytest.mark.parametrize(("samples", "share"), [(SampleKind.FILES, 4 / 10), (SampleKind.ROWS, 3 / 8)])
def test_the_share_counts_what_becomes_a_sample_without_what_the_yaml_excludes(samples, share):
    rejects = [
        ("file", "empty", 3),
        ("metadata", "bad_key", 2),
        ("decode", "truncated", 1),
        ("file", "excluded", 9),
    ]
    assert catalog_numbers(header(samples, rejects)) == CatalogNumbers(2.0, 1.0, 2.0, 3.0, share)


def test_an_empty_catalog_has_zeros():
    totals = SimpleNamespace(rejects=[], durations=(0.0, 0.0, 0.0))
    empty = SimpleNamespace(samples=SampleKind.FILES, totals=totals, num_rows=0, num_rejected_files=0, seconds=0.0)
    assert catalog_numbers(empty) == CatalogNumbers(0.0, 0.0, 0.0, 0.0, 0.0)
