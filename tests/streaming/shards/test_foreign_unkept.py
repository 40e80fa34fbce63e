"""An index that cannot be kept is no failure: the data set is read as if nothing had ever been kept."""

import pickle
import warnings

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import StorageError
from headrace.stores.storage import LocalStorage
from tests.streaming.shards.test_foreign import write_tar
from tests.support.streaming.corpus import clips

TRAIN = sorted(clip.key for clip in clips(8))


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "shards").mkdir()
    for number in range(2):
        write_tar(tmp_path / f"shards/train-{number:03d}.tar", clips(4, first=4 * number))
    return tmp_path / "shards"


def read(dataset, num_workers=0):
    return sorted(key for batch in StreamingDataLoader(dataset, num_workers=num_workers) for key in batch["keys"])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("local", ["a file", "a file/cache"])
def test_a_cache_folder_that_can_be_none_costs_one_warning(shards, tmp_path, local, num_workers):
    (tmp_path / "a file").write_text("not a folder")
    with pytest.warns(UserWarning, match="no index can be kept") as caught:
        found = read(StreamingDataset(remote=shards, local=str(tmp_path / local), batch_size=4), num_workers)
    assert found == TRAIN
    (warning,) = [one for one in caught if str(tmp_path) in str(one.message)]
    text = str(warning.message)
    assert text.startswith(f"{tmp_path}/{local}/indexes: ")
    assert "headrace index" in text


@pytest.mark.parametrize("reason", ["Read-only file system", "No space left on device"])
def test_a_folder_that_cannot_be_written_costs_one_warning(shards, tmp_path, monkeypatch, reason):
    def write(self, path, data):
        raise StorageError(f"{path} in {self.uri}: {reason}")

    monkeypatch.setattr(LocalStorage, "write", write)
    with pytest.warns(UserWarning, match=reason) as caught:
        found = read(StreamingDataset(remote=shards, local=str(tmp_path / "cache"), batch_size=4))
    assert found == TRAIN
    assert len([one for one in caught if str(tmp_path) in str(one.message)]) == 1


def test_who_was_warned_is_not_warned_again_in_a_worker(shards, tmp_path):
    (tmp_path / "a file").write_text("not a folder")
    with pytest.warns(UserWarning, match="no index can be kept"):
        dataset = StreamingDataset(remote=shards, local=str(tmp_path / "a file"), batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(pickle.loads(pickle.dumps(dataset))) == TRAIN
