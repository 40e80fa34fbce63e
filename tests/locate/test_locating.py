"""One name means the same to every loader, and names that lead nowhere give different errors."""

import gzip

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import ConfigError, NoShardsError, NotFoundError
from headrace.format.tars.name_lists import expanded
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server


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
    with pytest.raises(ConfigError, match=r"plain: snapshot=1 needs snapshots, and this is a plain WebDataset"):
        StreamingDataset(remote=plain, snapshot=1)
    write_dataset(tmp_path / "ours", {"train": clips(4)})
    with pytest.raises(ConfigError, match=r"plain: latents=\[.*\] needs snapshots, and this is a plain WebDataset"):
        StreamingDataset(remote=plain, latents=[str(tmp_path / "ours/latents/enc")])
    with pytest.raises(ConfigError, match=r"plain: a folder of latents needs snapshots, and this is a plain"):
        StreamingDataset(remote=tmp_path / "ours/audio", latents=[str(plain)])


def test_a_snapshot_that_is_gone_is_distinguished_from_no_snapshots(tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    with pytest.raises(NotFoundError, match=r"snapshot 9 is not there \(there are \[1\]\)"):
        StreamingDataset(remote=tmp_path / "audio", snapshot=9)


def test_missing_and_empty_folders_and_the_root_of_an_output_give_different_errors(tmp_path):
    (tmp_path / "empty").mkdir()
    write_dataset(tmp_path / "ours", {"train": clips(4)})
    with pytest.raises(ConfigError, match=r"nowhere is not there \(relative names start at "):
        StreamingDataset(remote=tmp_path / "nowhere")
    with pytest.raises(NoShardsError, match=r"the folder .*nowhere is not there"):
        StreamingDataset(remote=tmp_path / "nowhere", snapshot=1)
    (tmp_path / "words.txt").write_text("words")
    with pytest.raises(NoShardsError, match=r"words\.txt: it is a file, and neither a tar nor a sizes\.json"):
        StreamingDataset(remote=tmp_path / "words.txt")
    with pytest.raises(ConfigError, match=r"empty: no snapshot and no shards .* there; it is empty"):
        StreamingDataset(remote=tmp_path / "empty")
    (tmp_path / "unbuilt/audio").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"name its folder of shards: .*/unbuilt/audio"):
        StreamingDataset(remote=tmp_path / "unbuilt")


def test_the_root_of_an_output_means_its_audio(tmp_path):
    write_dataset(tmp_path / "ours", {"train": clips(4)}, latents=True)
    latents = [str(tmp_path / "ours/latents/crepe")]
    for options in ({}, {"split": "train"}, {"snapshot": 1}, {"latents": latents}):
        root = StreamingDataset(remote=tmp_path / "ours", batch_size=2, **options)
        audio = StreamingDataset(remote=tmp_path / "ours/audio", batch_size=2, **options)
        assert [sample["__key__"] for sample in root] == [sample["__key__"] for sample in audio]
        assert root.state_dict() == audio.state_dict()
    with pytest.raises(NotFoundError, match="snapshot 9"):
        StreamingDataset(remote=tmp_path / "ours", snapshot=9)


def test_the_root_of_an_output_in_a_store_means_its_audio_too(tmp_path, monkeypatch):
    write_dataset(tmp_path, {"train": clips(4)})
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        assert StreamingDataset(remote=server.uri, local=tmp_path / "cache").size == 4
        with pytest.raises(ConfigError, match="build the data set, or check the path"):
            StreamingDataset(remote=f"{server.uri}/nowhere")


def test_another_librarys_data_set_in_a_store_is_called_what_it_is(tmp_path, monkeypatch):
    for name, blob in {"hub/data/a.parquet": b"", "mds/index.json": b'{"shards": [], "version": 2}'}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(blob)
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        for name, words in (
            ("hub", r"it is a data set of Parquet files \(data/a\.parquet\)"),
            ("mds", "it is an MDS data"),
        ):
            for read in (StreamingDataset, webdataset_loader):
                with pytest.raises(NoShardsError, match=words):
                    read(**{"remote" if read is StreamingDataset else "urls": f"{server.uri}/{name}"})


def test_a_split_given_for_the_folder_of_shards_gives_an_error_with_the_folder(tmp_path):
    write_dataset(tmp_path / "ours", {"train": clips(4)})
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


@pytest.mark.medium
def test_a_brace_pattern_may_be_longer_than_any_file_name(tmp_path):
    names = [f"{number:03d}-{'x' * 40}.tar" for number in range(120)]
    for name in names:
        write_tar(tmp_path / name, clips(1, first=int(name[:3])))
    wanted = sorted(clip.key for clip in clips(120))
    for remote in (f"{tmp_path}/{{{','.join(names)}}}", f"{tmp_path}/{{000..119}}-{'{x,x}'[1]}{'x' * 39}.tar"):
        assert keys(remote, local=tmp_path / "cache") == wanted
        assert sorted(sample["__key__"] for sample in webdataset_loader(remote, batch_size=None)) == wanted
