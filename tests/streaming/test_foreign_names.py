"""Names that fit nothing, or something else than was asked for, are told apart."""

import gzip

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import ConfigError, NotFoundError
from headrace.streaming.shards.finding import expanded
from tests.streaming.corpus import clips, write_dataset
from tests.streaming.fault_server import fault_server
from tests.streaming.test_foreign import keys, write_tar


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "plain").mkdir()
    write_tar(tmp_path / "plain/train-000.tar", clips(4))
    return tmp_path / "plain"


def test_the_home_folder_is_expanded(plain, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = sorted(clip.key for clip in clips(4))
    for remote in ("~/plain", "~/plain/", "~/plain/*.tar", "~/plain/train-{000..000}.tar"):
        assert keys(remote, local="~/cache") == wanted
        assert len(list(webdataset_loader(remote, batch_size=None))) == 4
    assert (tmp_path / "cache/indexes").is_dir()
    assert len(StreamingDataset(local="~/plain")) == 4


def test_names_that_only_look_like_the_home_folder_stay():
    assert expanded("s3://bucket/~/x") == "s3://bucket/~/x"
    assert expanded("./~/x") == "./~/x"


def test_a_plain_web_dataset_has_no_snapshots(plain, tmp_path):
    with pytest.raises(NotFoundError, match=r"plain: snapshot=1 needs snapshots, and this is a plain WebDataset"):
        StreamingDataset(remote=plain, snapshot=1)
    write_dataset(tmp_path / "ours", {"train": clips(4)})
    with pytest.raises(NotFoundError, match=r"plain: latents=\[.*\] needs snapshots, and this is a plain WebDataset"):
        StreamingDataset(remote=plain, latents=[str(tmp_path / "ours/latents/enc")])
    with pytest.raises(NotFoundError, match=r"plain: a folder of latents needs snapshots, and this is a plain"):
        StreamingDataset(remote=tmp_path / "ours/audio", latents=[str(plain)])


def test_a_snapshot_that_is_gone_is_told_from_none(tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    with pytest.raises(NotFoundError, match=r"snapshot 9 is not there \(there are \[1\]\)"):
        StreamingDataset(remote=tmp_path / "audio", snapshot=9)


def test_missing_and_empty_folders_and_the_root_of_an_output_are_told_apart(tmp_path):
    (tmp_path / "empty").mkdir()
    write_dataset(tmp_path / "ours", {"train": clips(4)})
    with pytest.raises(ConfigError, match=r"nowhere is not there \(relative names start at "):
        StreamingDataset(remote=tmp_path / "nowhere")
    with pytest.raises(NotFoundError, match=r"no snapshot 1, nor any other; .*nowhere is not there"):
        StreamingDataset(remote=tmp_path / "nowhere", snapshot=1)
    (tmp_path / "words.txt").write_text("words")
    with pytest.raises(ConfigError, match=r"words\.txt is a file, and neither a tar nor a sizes\.json"):
        StreamingDataset(remote=tmp_path / "words.txt")
    with pytest.raises(ConfigError, match=r"empty is empty"):
        StreamingDataset(remote=tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"name its folder of shards: .*/ours/audio"):
        StreamingDataset(remote=tmp_path / "ours")


def test_the_root_of_an_output_in_a_store_is_told_too(tmp_path, monkeypatch):
    write_dataset(tmp_path, {"train": clips(4)})
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ConfigError, match=r"name its folder of shards: s3://bucket/audio"):
            StreamingDataset(remote=server.uri)
        with pytest.raises(ConfigError, match="build the data set, or check the path"):
            StreamingDataset(remote=f"{server.uri}/nowhere")


def test_a_split_named_for_the_folder_of_shards_is_told_its_place(tmp_path):
    write_dataset(tmp_path / "ours", {"train": clips(4)})
    with pytest.raises(ConfigError, match=r"name its folder of shards: .*/ours/audio"):
        StreamingDataset(remote=tmp_path / "ours", split="train")
    with pytest.raises(ConfigError, match=r"ours/train is not there .*; did you mean .*/ours/audio, with split=…"):
        StreamingDataset(remote=tmp_path / "ours/train")


@pytest.mark.parametrize("remote", ["plain", "plain/*.tar", "./plain/", "zipped", "ours/audio"])
def test_relative_names_hold_when_the_process_goes_elsewhere(plain, tmp_path, monkeypatch, remote):
    write_dataset(tmp_path / "ours", {"train": clips(4)}, latents=True)
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped/a.tar.gz").write_bytes(gzip.compress(next(plain.glob("*.tar")).read_bytes()))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    latents = ["ours/latents/crepe"] if remote == "ours/audio" else []
    dataset = StreamingDataset(remote=remote, local="cache", latents=latents, batch_size=2)
    mixed = StreamingDataset(streams=[Stream("ours/audio")], local="cache", batch_size=2)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for one in (dataset, mixed):
        assert sum(bool(key) for batch in StreamingDataLoader(one) for key in batch["keys"]) == 4
        one.load_state_dict(one.state_dict())
    assert mixed.state_dict()["streams"][0]["name"] == "ours/audio"
    assert list((tmp_path / "elsewhere").iterdir()) == []
