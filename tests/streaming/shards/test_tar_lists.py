"""A Python list of tars is a data set: paths or URLs, in the order of the list."""

import json
import os

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import ConfigError, NotFoundError
from headrace.upkeep.tar_indexes import index_tars
from tests.support.foreign_tars import write_tars
from tests.support.streaming.fault_server import fault_server


@pytest.fixture
def tars(tmp_path):
    """Tars in two folders, as absolute paths."""
    write_tars(tmp_path / "a", 2, 2)
    write_tars(tmp_path / "b", 1, 2, first=10)
    return [str(tmp_path / name) for name in ("b/train-000.tar", "a/train-001.tar", "a/train-000.tar")]


def keys(**more):
    return [
        key for batch in StreamingDataLoader(StreamingDataset(batch_size=2, **more)) for key in batch["keys"] if key
    ]


IN_ORDER = ["s010", "s011", "s002", "s003", "s000", "s001"]


def test_a_dataset_and_a_stream_read_a_list_in_its_order(tars):
    assert keys(remote=tars) == IN_ORDER
    assert keys(streams=[Stream(remote=tuple(tars))]) == IN_ORDER
    assert keys(remote=tars[:1]) == ["s010", "s011"]


def test_a_tar_that_is_named_twice_is_read_once_with_a_warning(tars, tmp_path):
    (tmp_path / "list.txt").write_text("\n".join([*tars, tars[0]]))
    for remote in ([*tars, tars[0]], str(tmp_path / "list.txt")):
        with pytest.warns(UserWarning, match=r"b/train-000\.tar twice, and it is read once"):
            assert keys(remote=remote) == IN_ORDER


def test_paths_are_relative_to_the_folder_of_the_process(tars, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "a")
    made = StreamingDataset(remote=["train-000.tar", os.path.relpath(tars[0])], batch_size=4)
    monkeypatch.chdir(tmp_path)
    assert [batch["keys"] for batch in StreamingDataLoader(made)] == [["s000", "s001", "s010", "s011"]]


def test_urls_of_a_store_are_read_and_a_state_is_resumed(tars, tmp_path, monkeypatch):
    with fault_server(tmp_path) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        remote = [f"{face.uri}/{os.path.relpath(tar, tmp_path)}" for tar in tars]
        assert keys(remote=remote) == IN_ORDER
        made = StreamingDataset(remote=remote, batch_size=2)
        state = json.loads(json.dumps(made.state_dict(2)))
        made.load_state_dict(state)
        assert [batch["keys"] for batch in StreamingDataLoader(made)] == [["s002", "s003"], ["s000", "s001"]]


def test_all_tars_of_a_folder_with_columns_can_be_chosen_from(tars, tmp_path):
    index_tars(str(tmp_path / "a"), num_threads=1, columns=True)
    assert sorted(keys(remote=sorted(tars)[:2], where="cls = 1")) == ["s001", "s003"]


def test_the_plain_loader_reads_a_list(tars):
    assert sorted(key for batch in webdataset_loader(tars, batch_size=2) for key in batch["keys"] if key) == sorted(
        IN_ORDER
    )


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        ([], "remote is empty"),
        (["s3://a/x.tar", "s3://b/y.tar"], "several stores"),
        (["s3://a/x.tar", "/b/y.tar"], "several stores"),
        (["/a/x-{0..3}"], "expected the path or URL of a tar"),
        (["https://h/a.tar?sig=secret", "https://h/b.tar"], r"'https://h/a\.tar' in a list"),
        ([3], r"remote\[0\] is 3: expected a path or URL"),
        (3, "a list of paths or URLs of tars"),
    ],
)
def test_what_is_not_a_list_of_tars_is_said(remote, message):
    with pytest.raises(ConfigError, match=message) as caught:
        StreamingDataset(remote=remote)
    assert "secret" not in str(caught.value)


def test_a_tar_that_is_not_there_is_named(tars):
    with pytest.raises(NotFoundError, match=r"gone\.tar: the shard is not there"):
        StreamingDataset(remote=[*tars, tars[0].replace("train-000", "gone")])
