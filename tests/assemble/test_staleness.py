"""Tests of `headrace.assemble.staleness`."""

from headrace.assemble.staleness import BuildNeed, plan_build
from headrace.format.manifests.manifests import ManifestSummary
from tests.support.reconcile import numbered


def test_partitions_are_missing_changed_or_current():
    manifests = {"train-0000": numbered("train-0000", "a"), "train-0001": numbered("train-0001", "b")}
    plan = plan_build({"train-0000": "a", "train-0001": "new", "test-0000": "c"}, manifests)
    assert plan.stale == {"train-0001": BuildNeed.CHANGED, "test-0000": BuildNeed.MISSING}
    assert plan.current == {"train-0000": manifests["train-0000"]}


def test_a_partition_with_missing_files_is_damaged_although_its_manifest_matches():
    manifests = {"train-0000": numbered("train-0000", "a"), "train-0001": numbered("train-0001", "b")}
    plan = plan_build({"train-0000": "a", "train-0001": "new"}, manifests, damaged={"train-0000", "train-0001"})
    assert plan.stale == {"train-0000": BuildNeed.DAMAGED, "train-0001": BuildNeed.CHANGED}


def test_without_a_listing_the_manifest_is_trusted():
    assert not plan_build({"train-0000": "a"}, {"train-0000": numbered("train-0000", "a")}).stale


def test_summaries_of_manifests_give_the_same_result():
    plan = plan_build({"train-0000": "a", "train-0001": "new"}, {"train-0000": ManifestSummary(3, "a", "digest")})
    assert plan.current == {"train-0000": ManifestSummary(3, "a", "digest")}
    assert plan.stale == {"train-0001": BuildNeed.MISSING}
