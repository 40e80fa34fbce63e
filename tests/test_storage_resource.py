"""How the URIs of a data set's YAML become folders."""

import pytest

from headrace.config import DatasetConfig
from headrace.errors import ConfigError
from resources.storage import StorageResource


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return StorageResource(root=str(tmp_path / "root"))


def test_relative_paths_lie_below_the_root_and_urls_stay(storage, tmp_path):
    assert storage.resolve("data/birds") == str(tmp_path / "root/data/birds")
    assert storage.resolve("/data/birds") == "/data/birds"
    assert storage.resolve("s3://bucket/~/birds") == "s3://bucket/~/birds"
    assert storage.resolve("./~") == str(tmp_path / "root/~")


def test_a_tilde_is_the_home_folder_in_source_metadata_and_output(storage, tmp_path):
    home = tmp_path / "home"
    (home / "birds").mkdir(parents=True)
    (home / "birds.csv").write_text("path,title\na.wav,A\n")
    source = {"uri": "~/birds", "metadata": "~/birds.csv"}
    config = DatasetConfig(name="birds", source=source, output={"uri": "~/out"})
    assert storage.output(config).uri == str(home / "out")
    assert storage.metadata(config).height == 1
    assert storage.metadata_stamp(config) is not None
    storage.source(config)
    assert not (tmp_path / "root").exists()


def test_the_home_folder_of_nobody_is_an_error_with_the_way_out(storage):
    with pytest.raises(ConfigError, match=r"no home folder of ~no-such-user; .* or \./~no-such-user/x"):
        storage.resolve("~no-such-user/x")
