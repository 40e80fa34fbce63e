"""Recordings and tables in a repository of the Hugging Face Hub: a source as a bucket is."""

import pytest

from headrace.config.dataset import DatasetConfig
from headrace.sources.named_files import object_of
from headrace.sources.sources import open_source
from headrace_dagster.resources.storage import StorageResource
from tests.support.builds import Project, check
from tests.support.hub import COMMITS, hub_server

PLACE = "hf://datasets/birds/songs"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose recordings are in a repository, with its server."""
    project = Project(tmp_path, source_uri=f"{PLACE}/recordings")
    for commit in COMMITS:
        (tmp_path / "hub" / commit / "tables").mkdir(parents=True)
        (tmp_path / "hub" / commit / "tables/birds.csv").write_text("path,title\nclip0.wav,first\n")
    with hub_server(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.urls[0])
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        yield project, server


def put(project, commit, *seeds):
    for number, seed in enumerate(seeds):
        project.put(f"clip{number}.wav", seed)
    (project.folder / "source").rename(project.folder / "hub" / commit / "recordings")
    (project.folder / "source").mkdir()


@pytest.mark.medium
def test_a_build_reads_a_commit_and_the_next_one_what_another_commit_changed(project):
    made, server = project
    put(made, COMMITS[0], "a", "b", "c")
    put(made, COMMITS[1], "a", "b", "d")
    first = made.build()
    check(made, first)
    assert not made.build().is_new
    server.main = COMMITS[1]
    assert made.build().is_new
    assert open_source(made.source_uri).uri == made.source_uri


@pytest.mark.parametrize("name", [f"{PLACE}/tables/birds.csv", f"{PLACE}/tables/*.csv"])
def test_a_table_is_read_from_the_repository(project, name):
    config = DatasetConfig(name="birds", source={"uri": f"{PLACE}/recordings", "metadata": name}, output={"uri": "out"})
    storage = StorageResource()
    assert [one.place for one in storage.metadata_places(config)] == [f"{PLACE}/tables/birds.csv"]
    assert list(storage.table_stamps(config).values()) != [None]
    assert storage.metadata(config) is not None


@pytest.mark.parametrize("place", [PLACE, "hf://birds/model", "hf://buckets/birds/bucket"])
def test_a_file_that_a_corpus_names_is_found_by_its_url(project, place):
    storage, path = object_of(f"{place}/tables/birds.csv")
    assert path == "tables/birds.csv"
    assert storage.exists(path)
