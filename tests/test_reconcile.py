import dataclasses

import polars as pl
import pytest

from headrace.catalog_partitions import partition_fingerprints, partition_work
from headrace.manifests import Manifest, ManifestSummary, NumberedManifest
from headrace.reconcile import Need, is_current, plan_build, wanted_partitions
from headrace.snapshots import Snapshot
from tests.projects import Project


def numbered(partition: str, wanted: str) -> NumberedManifest:
    return NumberedManifest(3, Manifest(partition, wanted, "source", {}, ()))


def test_partitions_are_divided_into_missing_changed_and_current_ones():
    manifests = {"train-0000": numbered("train-0000", "a"), "train-0001": numbered("train-0001", "b")}
    plan = plan_build({"train-0000": "a", "train-0001": "new", "test-0000": "c"}, manifests)
    assert plan.stale == {"train-0001": Need.CHANGED, "test-0000": Need.MISSING}
    assert plan.current == {"train-0000": manifests["train-0000"]}


def test_partitions_that_left_the_layout_are_neither_stale_nor_current():
    plan = plan_build(
        {"train-0000": "a"}, {"train-0000": numbered("train-0000", "a"), "old-0000": numbered("old-0000", "z")}
    )
    assert plan.left == ("old-0000",)
    assert not plan.stale
    assert list(plan.current) == ["train-0000"]


def test_a_partition_whose_files_are_not_there_in_full_is_damaged_though_its_manifest_is_right():
    manifests = {"train-0000": numbered("train-0000", "a"), "train-0001": numbered("train-0001", "b")}
    plan = plan_build({"train-0000": "a", "train-0001": "new"}, manifests, damaged={"train-0000", "train-0001"})
    assert plan.stale == {"train-0000": Need.DAMAGED, "train-0001": Need.CHANGED}


def test_without_a_listing_the_manifest_is_believed():
    assert not plan_build({"train-0000": "a"}, {"train-0000": numbered("train-0000", "a")}).stale


def test_summaries_of_manifests_are_compared_alike():
    plan = plan_build({"train-0000": "a", "train-0001": "new"}, {"train-0000": ManifestSummary(3, "a", "digest")})
    assert plan.current == {"train-0000": ManifestSummary(3, "a", "digest")}
    assert plan.stale == {"train-0001": Need.MISSING}


def test_a_snapshot_is_current_only_with_the_same_catalog_and_manifests():
    manifests = {"train-0000": numbered("train-0000", "a")}
    snapshot = Snapshot("catalog", {"train-0000": 3}, {}, "", "")
    assert is_current(snapshot, "catalog", manifests)
    assert not is_current(None, "catalog", manifests)
    assert not is_current(snapshot, "another", manifests)
    assert not is_current(dataclasses.replace(snapshot, manifests={"train-0000": 2}), "catalog", manifests)
    assert not is_current(snapshot, "catalog", {})


RECORDINGS = pl.DataFrame(
    {
        "path": [f"{i}.wav" for i in range(20)],
        "recording_digest": [f"{i:032x}" for i in range(20)],
        "duration_seconds": [2.5] * 20,
    }
)


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write_yaml()
    return project


def wanted(recordings, config):
    """What the partitions of these recordings should be built from."""
    return wanted_partitions(partition_fingerprints(recordings, config), config)


def test_every_partition_is_wanted_also_empty_ones(project):
    assert list(wanted(RECORDINGS.clear(), project.config())) == project.config().layout().partition_keys()


def test_one_changed_recording_changes_what_one_partition_wants(project):
    before = wanted(RECORDINGS, project.config())
    digests = ["f" * 32, *RECORDINGS["recording_digest"][1:]]
    after = wanted(RECORDINGS.with_columns(recording_digest=pl.Series(digests)), project.config())
    assert sum(before[name] != after[name] for name in before) == 1


def test_every_audio_setting_changes_what_all_partitions_want(project):
    before = wanted(RECORDINGS, project.config())
    for audio in ({"sample_rate": 16000}, {"num_channels": 2}, {"compression_level": 1}, {"segment_seconds": 1.0}):
        project.write_yaml(audio=audio)
        after = wanted(RECORDINGS, project.config())
        assert all(before[name] != after[name] for name in before), audio


def test_a_group_column_with_a_name_of_ours_is_found(project):
    """It is stored under another name."""
    project.write_yaml(group_by="sha256")
    catalog = RECORDINGS.with_columns(metadata_sha256=pl.lit("one artist"), sha256=pl.col("path"))
    (found,) = [name for name, work in partition_work(catalog, project.config()).items() if work.num_samples]
    empty = wanted(RECORDINGS.clear(), project.config())
    assert [name for name, digest in wanted(catalog, project.config()).items() if digest != empty[name]] == [found]


def test_work_counts_segments_where_recordings_are_cut(project):
    whole = partition_work(RECORDINGS, project.config())
    project.write_yaml(audio={"segment_seconds": 1.0})
    cut = partition_work(RECORDINGS, project.config())
    assert sum(part.num_samples for part in whole.values()) == 20
    assert sum(part.num_samples for part in cut.values()) == 60
    assert sum(part.seconds for part in whole.values()) == pytest.approx(50.0)
