"""Tags of runs: the partitions and the data set of a run are found from them."""

from types import SimpleNamespace

import dagster as dg
import pytest

from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.tags import (
    ASSET_JOB,
    DATASET_TAG,
    FIRST_PARTITION_TAG,
    LAST_PARTITION_TAG,
    PARTITION_TAG,
    dataset_of,
    partition_label,
    partitions_of_run,
    range_tags,
    work_tags,
)

LAYOUT = [f"train-{number:04d}" for number in range(5)]


def run(assets=None, job=ASSET_JOB, **tags):
    keys = None if assets is None else {dg.AssetKey(key.split("/")) for key in assets}
    return dg.DagsterRun(job_name=job, tags=tags, asset_selection=keys)


def dataset(name, *prefix):
    return SimpleNamespace(name=name, key_prefix=prefix, keys=DatasetKeys(prefix))


def test_each_partition_of_a_run_has_a_token_of_its_own():
    assert len(set(work_tags(20))) == 20
    assert work_tags(3)[:1] == work_tags(1)


@pytest.mark.parametrize(
    ("tags", "partitions", "label"),
    [
        ({}, (), ""),
        ({PARTITION_TAG: "train-0003"}, ("train-0003",), "train-0003"),
        (range_tags(LAYOUT[1:4]), tuple(LAYOUT[1:4]), "train-0001 … train-0003"),
        (range_tags(LAYOUT[2:3]), ("train-0002",), "train-0002"),
        ({FIRST_PARTITION_TAG: "a", LAST_PARTITION_TAG: "b"}, ("a", "b"), "a … b"),
        ({FIRST_PARTITION_TAG: "train-0001", LAST_PARTITION_TAG: "b"}, ("train-0001", "b"), "train-0001 … b"),
    ],
)
def test_the_partitions_of_a_run_are_those_of_its_tags(tags, partitions, label):
    assert partitions_of_run(run(**tags), LAYOUT) == partitions
    assert partition_label(run(**tags)) == label


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (run(["a/catalog"], **{DATASET_TAG: "tagged"}), "tagged"),
        (run(["a/catalog"]), "short"),
        (run(["a/b/catalog"]), "long"),
        (run(["other/catalog"]), None),
        (run(), ASSET_JOB),
        (run(job="short_verify"), "short"),
        (run(job="nightly_verify"), None),
    ],
)
def test_a_run_belongs_to_the_data_set_of_its_tag_its_assets_or_its_job(found, name):
    assert dataset_of(found, [dataset("short", "a"), dataset("long", "a", "b")]) == name
