import dataclasses

import polars as pl
import pytest

from headrace.assemble.build_reasons import BuildReason, why_build
from headrace.assemble.partition_columns import ColumnSettings, columns_source
from headrace.assemble.reconcile import is_current, wanted_columns
from headrace.assemble.staleness import plan_build
from headrace.catalog.stored.header import CatalogHeader, PartitionEntry
from headrace.catalog.stored.partitions import PartitionSize, num_samples, partition_sizes
from headrace.format.manifests.manifests import Manifest, ManifestSummary
from headrace.format.snapshots.snapshots import FrozenPartition, Snapshot
from tests.support.catalog_fakes import with_partitions
from tests.support.projects import Project
from tests.support.reconcile import numbered, wanted


def test_columns_are_stale_if_their_audio_or_their_rows_changed():
    audio = {"train-0000": ManifestSummary(1, "wanted", "audio"), "test-0000": ManifestSummary(1, "wanted", "other")}
    settings, source = ColumnSettings(), columns_source("audio", "rows")
    assert wanted_columns(audio, {"train-0000": "rows"}) == {
        "train-0000": settings.wanted(source),
        "test-0000": settings.wanted(columns_source("other", "")),
    }
    found = Manifest("train-0000", settings.wanted(source), source, {}, ())
    assert why_build(found, source, settings) == ()
    assert why_build(found, columns_source("new", "rows"), settings) == (BuildReason.AUDIO,)
    assert why_build(found, columns_source("audio", "new"), settings) == (BuildReason.ROWS,)
    assert why_build(dataclasses.replace(found, wanted="of another format"), source, settings) == (BuildReason.ROWS,)


def test_partitions_that_left_the_layout_are_neither_stale_nor_current():
    plan = plan_build(
        {"train-0000": "a"}, {"train-0000": numbered("train-0000", "a"), "old-0000": numbered("old-0000", "z")}
    )
    assert not plan.stale
    assert list(plan.current) == ["train-0000"]


def test_a_snapshot_is_current_only_with_the_same_catalog_and_manifests():
    manifests = {"train-0000": numbered("train-0000", "a")}
    frozen = FrozenPartition(3, "a", "digest", "", 0, 0, 0, 0, 0.0, 0)
    snapshot = Snapshot("catalog", {"train-0000": frozen}, {}, (), 1, "")
    older = dataclasses.replace(frozen, number=2)
    assert is_current(snapshot, "catalog", manifests)
    assert not is_current(None, "catalog", manifests)
    assert not is_current(snapshot, "another", manifests)
    assert not is_current(dataclasses.replace(snapshot, partitions={"train-0000": older}), "catalog", manifests)
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


def test_every_partition_is_wanted_including_empty_ones(project):
    assert list(wanted(RECORDINGS.clear(), project.config())) == project.config().partitioning().partition_keys()


def test_a_changed_recording_changes_the_wanted_state_of_one_partition(project):
    before = wanted(RECORDINGS, project.config())
    digests = ["f" * 32, *RECORDINGS["recording_digest"][1:]]
    after = wanted(RECORDINGS.with_columns(recording_digest=pl.Series(digests)), project.config())
    assert sum(before[name] != after[name] for name in before) == 1


def test_every_audio_setting_changes_the_wanted_state_of_all_partitions(project):
    before = wanted(RECORDINGS, project.config())
    for audio in ({"sample_rate": 16000}, {"num_channels": 2}, {"compression_level": 1}, {"segment_seconds": 1.0}):
        project.write_yaml(audio=audio)
        after = wanted(RECORDINGS, project.config())
        assert all(before[name] != after[name] for name in before), audio


def test_a_group_column_with_a_reserved_name_is_found(project):
    """The column is stored under another name."""
    project.write_yaml(group_by="sha256")
    catalog = RECORDINGS.with_columns(metadata_sha256=pl.lit("one artist"), sha256=pl.col("path"))
    (found,) = with_partitions(catalog, project.config().partitioning(), "sha256")["partition"].unique()
    empty = wanted(RECORDINGS.clear(), project.config())
    assert [name for name, digest in wanted(catalog, project.config()).items() if digest != empty[name]] == [found]


def test_work_is_counted_in_segments_if_recordings_are_cut():
    assert num_samples(RECORDINGS, None) == 20
    assert num_samples(RECORDINGS, 1.0) == 60
    assert num_samples(RECORDINGS, 9.0) == 20


def test_partitions_without_recordings_are_no_work():
    empty = PartitionEntry("test-0000", "x", "", 0, 0, 0.0, 0, None, None)
    header = CatalogHeader(
        None, {"a-0000": PartitionEntry("a-0000", "x", "", 2, 6, 5.0, 9, None, None), "b-0000": empty}
    )
    assert partition_sizes(header) == {"a-0000": PartitionSize(6, 5.0)}
