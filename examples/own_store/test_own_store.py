"""The contract of stores, and what this one counts."""

import pytest
from own_store import CountingStorage

from headrace.stores.storage import LocalStorage
from headrace.testing import StorageContract


@pytest.fixture
def storage(tmp_path):
    return CountingStorage(LocalStorage(tmp_path))


class TestCounting(StorageContract):
    """Every test of the contract."""


def test_whole_objects_and_ranges_are_counted(storage):
    storage.write("a", bytes(100))
    storage.read("a")
    storage.read_ranges("a", [(0, 10), (5, 20)])
    assert storage.num_bytes == 125
