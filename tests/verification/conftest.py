"""Fixtures of the tests in this folder."""

import shutil

import pytest

from headrace.locate.shard_list import LocatedShard
from headrace.stores.storage import LocalStorage
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture(scope="session")
def small_output(tmp_path_factory):
    """An output with two audio shards, a set of columns and a view."""
    folder = tmp_path_factory.mktemp("small_output")
    samples = {"train": clips(8)}
    audio = write_dataset(folder, samples)
    write_columns(folder, "mine", {spec("n", "int"): lambda clip: clip.number}, samples, audio)
    write_view(folder, "odd", lambda key: int(key[-1]) % 2)
    return folder


@pytest.fixture
def output(small_output, tmp_path):
    """A copy of that output, which a test may damage."""
    return shutil.copytree(small_output, tmp_path / "out")


@pytest.fixture
def columns_files(output):
    """The files of the set of columns of that output, with 5 and 3 rows."""
    storage = LocalStorage(output / "columns/mine")
    names = sorted(path.name for path in storage.root.glob("*.columns"))
    return [LocatedShard(storage, name, count) for name, count in zip(names, (5, 3), strict=True)]
