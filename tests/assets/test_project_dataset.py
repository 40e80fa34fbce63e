"""A data set has its name as the prefix of its asset keys, or another one that the project gives."""

import dagster as dg
import pytest

from headrace.config.dataset import DatasetConfig
from headrace.errors import ConfigError
from headrace_dagster.assets.project_dataset import ProjectDataset, prefix_parts

CONFIG = DatasetConfig(
    name="birds",
    source={"uri": "a"},
    output={"uri": "b"},
    latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}],
    views={"clean": {"where": "a = 1"}},
)


@pytest.mark.parametrize(
    ("prefix", "path"), [(None, ["birds"]), ("audio/raw", ["audio", "raw"]), (["audio", "raw"], ["audio", "raw"])]
)
def test_all_assets_are_below_the_prefix(prefix, path):
    dataset = ProjectDataset.named(CONFIG, prefix)
    assert dataset.name == "birds"
    assert dg.AssetKey([*path, "catalog"]) in dataset.assets()
    assert all(dataset.keys.has(key) for key in dataset.assets())
    names = {key.path[-1] for key in dataset.assets()}
    assert {"mel_latent_shards", "metadata_columns", dataset.keys.view("clean").path[-1]} <= names


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ([], "expected at least one part"),
        ("", "each part: expected a letter"),
        ("a//b", "key_prefix 'a//b': each part"),
        (["a-b"], "key_prefix 'a-b': each part"),
        (7, "key_prefix is 7: expected a name, or a list of names"),
        ([7], r"key_prefix is \[7\]"),
    ],
)
def test_a_prefix_that_is_no_name_is_an_error(prefix, message):
    with pytest.raises(ConfigError, match=message):
        ProjectDataset.named(CONFIG, prefix)


def test_parts_of_a_text_are_between_slashes():
    assert prefix_parts("a/b") == prefix_parts(["a", "b"]) == ("a", "b")


def test_the_partitions_are_those_of_the_yaml():
    assert ProjectDataset.named(CONFIG).partitions.get_partition_keys() == CONFIG.partitioning().partition_keys()
