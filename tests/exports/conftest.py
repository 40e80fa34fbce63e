"""Fixtures of the tests in this folder."""

import pytest

from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Shard folders with one and with three shards, and one with two splits."""
    folder = tmp_path_factory.mktemp("outputs")
    write_dataset(folder / "small", {"train": clips(3)}, per_shard=3)
    write_dataset(folder / "large", {"train": clips(9)}, per_shard=3)
    write_dataset(folder / "splits", {"train": clips(3), "test": clips(3, first=9)}, per_shard=3)
    return {name: LocalStorage(folder / name / "audio") for name in ("small", "large", "splits")}


@pytest.fixture
def target(tmp_path):
    return LocalStorage(tmp_path / "plain")
