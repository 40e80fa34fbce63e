"""The counts of `sizes.json`, snapshot, indexes and loaders are compared."""

import json
from types import SimpleNamespace

import polars as pl
import pytest

from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.smoke.comparing import MOST_SHOWN
from headrace.smoke.counts import count_faults
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def audio(tmp_path):
    write_dataset(tmp_path, {"train": clips(8)})
    return LocalStorage(tmp_path / "audio")


def faults(audio, samples=(5, 3), streamed=(5, 3), rejected=(0, 0), indexed=(5, 3)):
    """The faults if this many samples arrived."""
    snapshot = read_snapshot(audio).snapshot
    table = read_table(audio, snapshot)
    counts = {"samples": samples, "streamed": streamed, "rejected": rejected}
    rows = pl.DataFrame({"shard": list(table.names()), **{name: list(found) for name, found in counts.items()}})
    return count_faults(audio, snapshot, table, rows, indexed)


def test_equal_counts_have_no_faults(audio):
    assert faults(audio) == []
    assert faults(audio, samples=(4, 3), streamed=(4, 3), rejected=(1, 0)) == []


def test_samples_that_did_not_arrive_are_faults_of_their_shard(audio):
    first, second = read_table(audio, read_snapshot(audio).snapshot).names()
    assert faults(audio, samples=(4, 3)) == [f"{first}: 4 samples arrived, 5 by streaming; sizes.json says 5"]
    assert faults(audio, streamed=(5, 2), rejected=(0, 2)) == [
        f"{second}: 3 samples arrived, 2 by streaming, 2 have no latents; sizes.json says 3"
    ]


def test_an_index_that_lists_other_samples_is_a_fault(audio):
    (fault,) = faults(audio, indexed=(5, 4))
    assert fault.endswith(": its index lists 4 samples, the snapshot says 3")


def test_sizes_json_is_compared_with_the_snapshot(audio):
    sizes = json.loads(audio.read("sizes.json"))
    first, second = sizes
    audio.write("sizes.json", json.dumps({first: 5, "other.tar": 1}).encode())
    found = faults(audio)
    assert f"sizes.json: {second} is None, the snapshot says 3" in found
    assert "sizes.json: other.tar is 1, the snapshot says None" in found
    audio.write("sizes.json", json.dumps({f"{number}.tar": 1 for number in range(2 * MOST_SHOWN)}).encode())
    assert len(faults(audio)) == MOST_SHOWN
    audio.delete("sizes.json")
    (fault,) = faults(audio)
    assert "sizes.json" in fault


def test_a_snapshot_that_counts_other_samples_than_its_table_is_a_fault(audio):
    snapshot = read_snapshot(audio).snapshot
    rows = pl.DataFrame({"shard": [], "samples": [], "streamed": [], "rejected": []})
    other = SimpleNamespace(num_samples=9)
    assert count_faults(audio, other, read_table(audio, snapshot), rows, ()) == [
        "the snapshot has 9 samples, its table of shards has 8"
    ]
