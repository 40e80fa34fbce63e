"""Plain web servers, which give files and ranges of files but list nothing: shards that are named are read."""

import json
import time

import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import ConfigError, NotFoundError
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import BUCKET, fault_server

TRAIN = sorted(clip.key for clip in clips(8))


@pytest.fixture
def web(tmp_path):
    """A server, and the URL of a folder on it."""
    (tmp_path / "web/set").mkdir(parents=True)
    for number in range(2):
        write_tar(tmp_path / f"web/set/train-{number:03d}.tar", clips(4, first=4 * number))
    (tmp_path / "web/set/sizes.json").write_text(json.dumps({f"train-{number:03d}.tar": 4 for number in range(2)}))
    with fault_server(tmp_path / "web") as server:
        yield server, f"http://127.0.0.1:{server.port}/{BUCKET}/set"


def loaded(remote):
    return sorted(sample["__key__"] for sample in webdataset_loader(remote, batch_size=None))


@pytest.mark.parametrize("name", ["train-{000..001}.tar", "sizes.json"])
def test_named_shards_are_read(web, tmp_path, name):
    _, url = web
    assert keys(f"{url}/{name}", local=str(tmp_path / "cache")) == TRAIN
    assert loaded(f"{url}/{name}") == TRAIN


def test_a_single_tar_is_read_at_once(web, tmp_path):
    """Nobody waits while a client asks again and again, for minutes, for what the server does not know."""
    _, url = web
    start = time.monotonic()
    assert keys(f"{url}/train-000.tar", local=str(tmp_path / "cache")) == TRAIN[:4]
    assert loaded(f"{url}/train-000.tar") == TRAIN[:4]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("name", ["train-{000..001}.tar", "sizes.json", "train-000.tar"])
def test_named_shards_are_verified(web, name):
    assert main(["verify", f"{web[1]}/{name}"]) == 0


@pytest.mark.parametrize("name", ["", "/*.tar"])
def test_a_folder_or_glob_says_how_to_name_the_shards(web, tmp_path, name):
    _, url = web
    for reader in (keys, webdataset_loader):
        with pytest.raises(ConfigError, match=r"does not list its folders \(501 .*brace pattern.*sizes\.json"):
            reader(url + name)


def test_latents_are_not_joined_to_a_folder_that_cannot_be_listed(web, tmp_path):
    write_dataset(tmp_path, {"train": clips(4)})
    with pytest.raises(ConfigError, match="does not list its folders"):
        StreamingDataset(remote=web[1], latents=[str(tmp_path / "audio")])


def test_a_named_shard_that_is_not_there_is_not_found(web):
    for reader in (keys, webdataset_loader):
        with pytest.raises(NotFoundError, match=r"train-002\.tar"):
            reader(f"{web[1]}/train-{{000..002}}.tar")
