"""Recordings and tables in a repository of the Hugging Face Hub: a source as a bucket is."""

import json

import pytest

from headrace.config.dataset import DatasetConfig
from headrace.source_kinds import source_kind
from headrace.sources.named_files import object_of
from headrace.sources.sources import open_corpus, open_source
from headrace_dagster.resources.storage import StorageResource
from tests.support.builds import Project, check
from tests.support.corpora import write_sound
from tests.support.hub import COMMITS, hub_server
from tests.support.tars import write_tar

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


def nemo(folder, text):
    row = {"audio_filepath": "a.wav", "duration": 0.05, "text": text}
    (folder / "man.json").write_text(json.dumps(row))
    return "man.json"


def lhotse(folder, text):
    source = {"type": "file", "channels": [0], "source": "a.wav"}
    recording = {"id": "a", "sources": [source], "sampling_rate": 8000, "num_samples": 400, "duration": 0.05}
    supervision = {"id": "a", "recording_id": "a", "start": 0, "duration": 0.05, "channel": 0, "text": text}
    (folder / "recordings.jsonl").write_text(json.dumps(recording))
    (folder / "supervisions.jsonl").write_text(json.dumps(supervision))
    return "*.jsonl"


def kaldi(folder, text):
    (folder / "wav.scp").write_text("a a.wav\n")
    (folder / "text").write_text(f"a {text}\n")
    return ""


def webdataset(folder, text):
    write_tar(folder / "a.tar", {"a.wav": (folder / "a.wav").read_bytes(), "a.txt": text.encode()})
    return "a.tar"


def seen(kind, uri):
    corpus = open_corpus(kind, uri, source_kind(kind).options())
    (row,) = corpus.rows().read()
    return row["text"], [(part.path, part.num_bytes, part.mtime_ns) for part in corpus.list()]


OPENED = {
    PLACE: "first",
    f"{PLACE}@main": "first",
    "hf://buckets/birds/bucket": "first",
    f"{PLACE}@refs/pr/1": "other",
    f"{PLACE}@refs%2Fpr%2F1": "other",
}


@pytest.mark.parametrize("place", OPENED)
@pytest.mark.parametrize("write", [nemo, lhotse, kaldi, webdataset])
def test_a_process_sees_what_another_commit_changed_whatever_kind_it_is_of(project, place, write):
    _, server = project
    for number, text in enumerate(("first", "other")):
        folder = server.folder / COMMITS[number] / "corpus"
        write_sound(folder / "a.wav", number)
        uri = f"{place}/corpus/{write(folder, text)}".rstrip("/")
    before = seen(write.__name__, uri)
    assert before[0] == OPENED[place]
    server.main = COMMITS[1]
    after = seen(write.__name__, uri)
    assert after[0] == "other"
    assert (after[1] == before[1]) == (OPENED[place] == "other")
