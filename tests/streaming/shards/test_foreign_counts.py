"""Shards that hold more or fewer samples than their list says: an error that names both, never samples lost."""

import json

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import IntegrityError, SampleCountError
from tests.streaming.shards.test_foreign import write_tar
from tests.support.streaming.corpus import clips


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("on_bad_sample", ["raise", "skip"])
@pytest.mark.parametrize("declared", [3, 5])
def test_a_count_that_is_not_the_tars_is_an_error(tmp_path, declared, on_bad_sample, num_workers):
    """It is no bad sample either: the order of all samples depends on the counts."""
    write_tar(tmp_path / "a.tar", clips(4))
    (tmp_path / "sizes.json").write_text(json.dumps({"a.tar": declared}))
    dataset = StreamingDataset(remote=tmp_path / "sizes.json", batch_size=2, on_bad_sample=on_bad_sample)
    with pytest.raises(SampleCountError, match=rf"a\.tar: holds 4 samples, .*sizes\.json says {declared}") as caught:
        list(StreamingDataLoader(dataset, num_workers=num_workers))
    assert isinstance(caught.value, IntegrityError)
    assert "failed" not in str(caught.value)


def test_a_shard_that_changed_since_the_data_set_was_opened_is_an_error(tmp_path):
    (tmp_path / "shards").mkdir()
    write_tar(tmp_path / "shards/a.tar", clips(4))
    dataset = StreamingDataset(remote=tmp_path / "shards", local=str(tmp_path / "cache"), batch_size=2)
    for kept in (tmp_path / "cache/indexes").iterdir():
        kept.unlink()
    write_tar(tmp_path / "shards/a.tar", clips(3))
    with pytest.raises(SampleCountError, match=r"a\.tar: holds 3 samples, .* opened says 4"):
        list(StreamingDataLoader(dataset))
