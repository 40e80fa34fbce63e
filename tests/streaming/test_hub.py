"""Tars on the Hugging Face Hub, read by both loaders, and resumed at the commit of the saved state."""

import json
import pickle

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import HeadraceError, NoShardsError, StateError
from headrace.locate import locate
from headrace.upkeep.tar_indexes import index_tars
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.foreign_tars import write_tars
from tests.support.hub import COMMITS, TOKEN, hub_server
from tests.support.streaming.corpus import clips, write_dataset

SONGS = "hf://datasets/birds/songs"
TRAIN = sorted(clip.key for clip in clips(8))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A private repository of two commits with the same names and sizes of tars, but other samples in them."""
    for number, commit in enumerate(COMMITS):
        folder = tmp_path / "hub" / commit / "data"
        folder.mkdir(parents=True)
        for shard in range(2):
            write_tar(folder / f"train-{shard:03d}.tar", clips(4, first=4 * shard + 50 * number))
    with hub_server(tmp_path / "hub") as server:
        server.is_private = True
        monkeypatch.setenv("HF_ENDPOINT", server.urls[0])
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def ordered(remote, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=remote, shuffle=True, batch_size=3, **more))
    return [
        (key, audio.tobytes())
        for batch in loader
        for key, audio in zip(batch["keys"], batch["audio"].numpy(), strict=True)
    ]


@pytest.mark.parametrize("name", ["data", "data/train-*.tar", "data/train-{000..001}.tar"])
def test_an_epoch_of_tars_is_that_of_local_ones(hub, tmp_path, name):
    local = ordered(str(hub.folder / COMMITS[0] / name))
    assert ordered(f"{SONGS}/{name}", local=str(tmp_path / "cache")) == local
    assert sorted(key for key, _ in local if key) == TRAIN
    loaded = webdataset_loader(f"{SONGS}/{name}", batch_size=None)
    assert sorted(sample["__key__"] for sample in loaded) == TRAIN
    assert not any("Authorization" in one.headers for one in hub.sent)


ODD_NAMES = ["a b", "a#1", "a?x", "a*", "a[1]", "a{1,2}", "a{1}", "a+b", "ä", "e\u0301", "日本", "a&b=c", "a@b", "a:b"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_with_special_characters_are_read_as_they_are(hub, tmp_path, name):
    (hub.folder / COMMITS[0] / "data").rename(hub.folder / COMMITS[0] / name)
    tar = hub.folder / COMMITS[0] / name / "train-000.tar"
    tar.rename(tar.with_name(f"{name}.tar"))
    assert set(locate(f"{SONGS}/{name}").tars.names) == {f"{name}.tar", "train-001.tar"}
    assert keys(f"{SONGS}/{name}/{name}.tar", local=str(tmp_path / "cache")) == TRAIN[:4]


@pytest.mark.parametrize("place", ["hf://birds/model", "hf://spaces/birds/space", "hf://buckets/birds/bucket"])
def test_other_kinds_of_repositories_are_read(hub, tmp_path, place):
    assert keys(f"{place}/data", local=str(tmp_path / "cache")) == TRAIN


@pytest.mark.medium
def test_a_resume_reads_the_commit_of_the_state_although_main_moved(hub, tmp_path):
    def loader(**more):
        dataset = StreamingDataset(remote=f"{SONGS}/data", shuffle=True, batch_size=2, local=str(tmp_path / "cache"))
        return StreamingDataLoader(dataset, **more)

    whole = [batch["keys"] for batch in loader()]
    first = loader()
    batches = iter(first)
    begun = [next(batches)["keys"], next(batches)["keys"]]
    state = first.state_dict()
    assert json.dumps(state).count(COMMITS[0]) == 1
    assert TOKEN not in json.dumps(state)
    assert TOKEN.encode() not in pickle.dumps(first.dataset)
    batches.close()
    hub.main = COMMITS[1]
    second = loader()
    assert min(key for batch in loader() for key in batch["keys"]) not in TRAIN
    second.load_state_dict(state)
    assert begun + [batch["keys"] for batch in second] == whole
    assert second.state_dict()["streams"][0]["revision"] == COMMITS[0]


def two_of(place):
    return [f"{place}/train-{shard:03d}.tar" for shard in range(2)]


def text_list(folder, names):
    (folder / "tars.txt").write_text("\n".join(names))
    return str(folder / "tars.txt")


PLACES_OF_TARS = {  # how tars of a branch are named, below `place`
    "folder": lambda folder, place: place,
    "glob": lambda folder, place: f"{place}/*.tar",
    "braces": lambda folder, place: f"{place}/train-{{000..001}}.tar",
    "list of lines": lambda folder, place: text_list(folder, two_of(place)),
    "list": lambda folder, place: two_of(place),
}


@pytest.mark.parametrize("below", ["/data", "", "@main/data", "@main"])
@pytest.mark.parametrize("form", PLACES_OF_TARS)
def test_a_resume_reads_the_commit_of_the_state_however_tars_are_named(hub, tmp_path, form, below):
    for commit in COMMITS:
        for shard in range(2):
            name = f"train-{shard:03d}.tar"
            (hub.folder / commit / name).hardlink_to(hub.folder / commit / "data" / name)
    remote = PLACES_OF_TARS[form](tmp_path, f"{SONGS}{below}")
    first = StreamingDataset(remote=remote, batch_size=2, local=str(tmp_path / "cache"))
    state = first.state_dict()
    hub.main = COMMITS[1]
    second = StreamingDataset(remote=remote, batch_size=2, local=str(tmp_path / "cache"))
    second.load_state_dict(state)
    assert sorted(sample["__key__"] for sample in second) == TRAIN
    assert second.state_dict()["streams"][0]["revision"] == COMMITS[0]


@pytest.mark.parametrize("place", ["hf://datasets/birds/{}", "hf://datasets/birds/songs@{}", "hf://birds/{}"])
@pytest.mark.parametrize("read", [lambda folder, names: names, text_list])
def test_a_list_of_several_repositories_or_revisions_says_so(hub, tmp_path, place, read):
    names = [f"{place.format(name)}/a.tar" for name in ("one", "two")]
    with pytest.raises(HeadraceError, match=r"lists tars of several stores: name each by streams="):
        StreamingDataset(remote=read(tmp_path, names))


def test_a_state_of_a_commit_is_resumed_from_a_copy_and_not_from_another_commit_that_is_named(hub, tmp_path):
    first = StreamingDataset(remote=f"{SONGS}/data", batch_size=2, local=str(tmp_path / "cache"))
    state = first.state_dict()
    copy = StreamingDataset(remote=str(hub.folder / COMMITS[0] / "data"), batch_size=2)
    copy.load_state_dict(state)
    (hub.folder / COMMITS[1] / "data/train-001.tar").unlink()
    other = StreamingDataset(remote=f"{SONGS}@{COMMITS[1]}/data", batch_size=2, local=str(tmp_path / "cache"))
    with pytest.raises(StateError):
        other.load_state_dict(state)


def test_an_output_with_its_latents_and_columns_is_one_commit(hub, tmp_path):
    write_dataset(hub.folder / COMMITS[0] / "output", {"train": clips(5)})
    found = locate(f"{SONGS}/output")
    assert found.is_output
    assert found.named == f"{SONGS}@{COMMITS[0]}/output"
    local = ordered(str(hub.folder / COMMITS[0] / "output"))
    assert ordered(f"{SONGS}/output", local=str(tmp_path / "cache")) == local


def test_streams_of_several_repositories_have_their_names_without_commits(hub, tmp_path):
    streams = [Stream(f"{SONGS}/data"), Stream("hf://birds/model/data")]
    dataset = StreamingDataset(streams=streams, batch_size=2, local=str(tmp_path / "cache"))
    assert [stream["name"] for stream in dataset.state_dict()["streams"]] == ["songs/data", "model/data"]


def test_an_index_is_used_where_the_repository_has_one(hub, tmp_path):
    index_tars(str(hub.folder / COMMITS[0] / "data"), num_threads=1)
    assert keys(f"{SONGS}/data/train-*.tar", local=str(tmp_path / "cache")) == TRAIN
    assert not (tmp_path / "cache/indexes").exists()


def test_a_folder_without_tars_says_what_is_there(hub):
    with pytest.raises(NoShardsError, match="data"):
        StreamingDataset(remote=SONGS)


@pytest.mark.medium
def test_tars_of_the_hub_get_columns_in_a_local_folder_and_are_read_at_the_commit_that_was_indexed(hub, tmp_path):
    for number, commit in enumerate(COMMITS):
        write_tars(hub.folder / commit / "with_json", 3, 4, first=100 * number)
    into = str(tmp_path / "into")
    results = index_tars(f"{SONGS}/with_json", columns=True, into=into)
    assert [(result.num_samples, result.fault) for result in results] == [(4, "")] * 3
    hub.main = COMMITS[1]
    hub.sent.clear()
    chosen = StreamingDataset(
        remote=into, local=str(tmp_path / "cache"), where="number >= 8 and snr < 5.5", columns=["metadata"]
    )
    assert [sample["metadata"]["number"] for sample in chosen] == [8, 9, 10]
    assert {one.path.partition("?")[0] for one in hub.sent} == {f"/{COMMITS[0]}/with_json/train-002.tar"}
    assert not any("Authorization" in one.headers for one in hub.sent)
    assert all(one.headers["Authorization"] == f"Bearer {TOKEN}" for one in hub.asked)


@pytest.mark.parametrize("name", ["data", "data/train-*.tar", "data/train-{000..001}.tar"])
def test_nothing_is_asked_twice_before_tars_are_indexed(hub, tmp_path, name):
    # each request is a wait before the first byte: the commit, folders, and each tar's place and indexes of others
    index_tars(f"{SONGS}/{name}", into=str(tmp_path / "into"))
    asked = [one.path for one in hub.asked]
    beside = {f"train-{shard:03d}{end}" for shard in range(2) for end in (".tar", ".tar.idx", ".json")}
    resolved = [path.rpartition("/")[2] for path in hub.resolved()]
    spelled_so = {"train-%7B000..001%7D.tar"}  # a name of its own, perhaps; nothing is listed that would say so
    assert set(resolved) - beside - spelled_so == set(), "a glob is not looked up as if it were a name"
    assert len(asked) == len(set(asked))
