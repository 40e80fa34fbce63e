"""The facts that the smoke test compares: what arrived, what the indexes list, and how differences are described."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from headrace.errors import IntegrityError
from headrace.format.indexes.audio_fields import AudioFacts
from headrace.format.indexes.index_entries import SampleEntry, build_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.tensors.outputs import hidden_output
from headrace.smoke.arrivals import (
    width_of,
)
from headrace.smoke.comparing import SampleComparer, SeenSamples, note
from headrace.smoke.counts import count_faults
from headrace.smoke.expected import ExpectedSamples, _expected_of, read_expected
from headrace.smoke.run import SmokePart
from headrace.stores.storage import LocalStorage
from tests.support.comparing import sample
from tests.support.index import placed
from tests.support.streaming.corpus import clips, write_dataset

CHECKS = ("every_key_once", "shapes_and_lengths", "finite_values", "full_scale", "matches_json", "same_in_both_readers")


def index_of(*keys, num_channels=1, sample_rate_hz=8000, field="flac"):
    entries = [SampleEntry(key, {field: (n, n + 1)}, 4, sample_rate_hz, num_channels) for n, key in enumerate(keys)]
    return build_index(entries, shard="s.tar", num_bytes=100)


def expected_of(*indexes):
    """The expected samples of some shards, sorted as `read_expected` does."""
    parts = [_expected_of(index, row) for row, index in enumerate(indexes)]
    order = np.argsort(np.concatenate([part.hashes for part in parts]))
    names = ("hashes", "shard", "num_frames", "width", "sample_rate_hz", "is_flac", "is_drawn")
    columns = [np.concatenate([getattr(part, name) for part in parts])[order] for name in names]
    return ExpectedSamples(*columns, np.zeros(0, np.int32), np.zeros(0, np.uint64))


def test_samples_are_mixed_if_they_cannot_share_a_batch():
    assert not expected_of(index_of("a", "b")).is_mixed
    assert expected_of(index_of("a"), index_of("b", num_channels=2)).is_mixed
    assert expected_of(index_of("a"), index_of("b", sample_rate_hz=16_000)).is_mixed


def test_samples_are_found_by_their_keys():
    expected = expected_of(index_of(*"abcdefgh"))
    assert sorted(expected.find(key) for key in "abcdefgh") == list(range(8))
    assert [expected.find(str(number)) for number in range(50)] == [None] * 50


def test_of_latents_the_length_and_width_of_their_tensor_is_expected():
    entries = [SampleEntry(key, {"pth": (0, 50)}, 9, 0, 0, placed(10, 34, 2, 3)) for key in "ab"]
    index = build_index(entries, shard="s.tar", num_bytes=100, outputs=(hidden_output("float32"),))
    found = _expected_of(index, 5)
    assert (found.num_frames.tolist(), found.width.tolist(), found.sample_rate_hz.tolist()) == ([2, 2], [3, 3], [0, 0])
    assert found.shard.tolist() == [5, 5]


def test_of_several_audio_fields_the_channels_of_each_are_expected():
    facts = {"mix": AudioFacts(9, 8000, 2), "voice": AudioFacts(9, 8000, 1)}
    ranges = {"mix.flac": (0, 50), "voice.flac": (50, 90)}
    index = build_index([SampleEntry("a", ranges, 9, 8000, 2, audio=facts)], shard="s.tar", num_bytes=100)
    assert _expected_of(index, 0).width.tolist() == [width_of([2, 1])] != [width_of([1, 2])]


def test_a_dataset_without_shards_expects_nothing(tmp_path):
    found = read_expected(LocalStorage(tmp_path), ShardTable.from_entries([]))
    assert len(found) == len(found.shard) == len(found.num_frames) == len(found.width) == 0
    assert len(found.sample_rate_hz) == len(found.is_flac) == len(found.rejected) == len(found.rejected_hashes) == 0
    assert found.find("a") is None
    assert not found.is_rejected("a")


def compared(*arrivals, error=None, keys="ab", expected=None):
    """Faults that a comparison notes of these samples, where 'a' and 'b' are expected; and its result."""
    expected = expected or expected_of(index_of(*keys))
    faults = {name: [] for name in CHECKS}
    seen = SeenSamples.none_of(expected)

    def come():
        yield from arrivals
        if error is not None:
            raise error

    result = SampleComparer(expected, ["s.tar", "s.tar"], faults).read("plain", come, seen)
    return {name: found for name, found in faults.items() if found}, seen, result


def test_samples_as_expected_are_no_fault():
    faults, seen, (count, total, first) = compared(sample("a"), sample("b"))
    assert faults == {}
    assert (seen.times.tolist(), seen.wrong.tolist(), seen.content.tolist()) == ([1, 1], [0, 0], [7, 7])
    assert count == 2
    assert 0 < first <= total < 60


def test_missing_and_repeated_samples_are_counted():
    faults, seen, (count, _, _) = compared(sample("a"), sample("a"), sample("b"), keys="abc")
    assert faults == {
        "every_key_once": [
            "plain: 1 samples did not arrive, 1 arrived more than once; the first of them is in s.tar",
        ]
    }
    assert sorted(seen.times.tolist()) == [0, 1, 2]
    assert count == 3
    assert compared(sample("a"), sample("b"), sample("b"))[0].keys() == {"every_key_once"}
    assert compared(sample("a"))[0].keys() == {"every_key_once"}
    assert compared()[2][2] == 0  # nothing arrived


def test_the_first_missing_sample_is_named_before_one_that_came_twice():
    expected = expected_of(index_of("a"), index_of("b"), index_of("c"))
    faults = {name: [] for name in CHECKS}
    comparer = SampleComparer(expected, ["0.tar", "1.tar", "2.tar"], faults)
    comparer.read("plain", lambda: iter([sample("a"), sample("a")]), SeenSamples.none_of(expected))
    first = min(expected.find(key) for key in "bc")
    assert faults["every_key_once"][0].endswith(f"is in {int(expected.shard[first])}.tar")


def test_only_audio_that_is_stored_as_flac_has_to_be_in_the_range():
    """MP3, Opus and Vorbis may exceed full scale where the recording does not; WAV of floats has any value."""
    for field in ("mp3", "opus", "ogg", "wav", "mix.mp3"):
        expected = expected_of(index_of("a"), index_of("b", field=field))
        assert compared(sample("a"), sample("b", exceeds=True), expected=expected)[0] == {}
        assert compared(sample("a"), sample("b", is_finite=False), expected=expected)[0].keys() == {"finite_values"}
        faults, _, _ = compared(sample("a", exceeds=True), sample("b"), expected=expected)
        assert faults == {"finite_values": ["plain: s.tar a: audio that is stored as FLAC is outside [-1, 1]"]}


def test_each_fault_of_a_sample_is_counted_and_described():
    wrong = sample("b", num_frames=5, is_finite=False, contradiction="its JSON says 6")
    faults, seen, _ = compared(sample("a"), wrong)
    assert faults == {
        "shapes_and_lengths": ["plain: s.tar b: (frames, width, rate) is (5, 1, 8000), the index says (4, 1, 8000)"],
        "finite_values": ["plain: s.tar b: values are not finite"],
        "matches_json": ["plain: s.tar b: its JSON says 6"],
    }
    assert sorted(seen.wrong.tolist()) == [0, 3]


def test_reading_that_fails_and_unknown_samples_are_faults():
    faults, _, (count, *_) = compared(sample("a"), sample("b"), sample("x"), error=IntegrityError("s.tar: damaged"))
    assert faults == {
        "every_key_once": [
            "plain: x arrived, but is not in the index of any shard that was read",
            "plain: reading failed: s.tar: damaged",
        ]
    }
    assert count == 3


@pytest.mark.parametrize(
    ("plain", "streamed", "num_faults"),
    [((1, 7), (1, 7), 0), ((1, 7), (1, 8), 1), ((0, 7), (1, 8), 0), ((1, 7), (0, 8), 0), ((2, 7), (2, 8), 1)],
)
def test_values_are_compared_where_both_readers_have_the_sample(plain, streamed, num_faults):
    expected = expected_of(index_of("a"))
    faults = {name: [] for name in CHECKS}
    both = [SeenSamples(*(np.array([value]) for value in (times, 0, content))) for times, content in (plain, streamed)]
    SampleComparer(expected, ["s.tar"], faults).compare_readers(*both)
    assert len(faults["same_in_both_readers"]) == num_faults
    for fault in faults["same_in_both_readers"]:
        assert fault == (
            "s.tar: the values of a sample have CRC-32 00000008 when streamed, and 00000007 when read by the plain "
            "pipeline"
        )


def test_five_faults_of_a_kind_are_described():
    faults = []
    for number in range(9):
        note(faults, str(number))
    assert faults == list("01234")


@pytest.fixture
def part(tmp_path):
    """Six samples in two shards, with a `sizes.json` that is right."""
    write_dataset(tmp_path, {"train": clips(6)}, per_shard=3)
    part = SmokePart.newest(LocalStorage(tmp_path / "audio"))
    write_sizes(part, dict.fromkeys(part.table.names(), 3))
    return part


def write_sizes(part, sizes):
    part.storage.write("sizes.json", json.dumps(sizes).encode())


def snapshot_of(part, num_samples):
    snapshot = part.numbered.snapshot
    return replace(snapshot, splits={"train": replace(snapshot.splits["train"], num_samples=num_samples)})


def faults_of(part, *, snapshot=None, table=None, indexed=(3, 3), **changes):
    columns = {"samples": [3, 3], "streamed": [3, 3], "rejected": [0, 0]} | changes
    rows = pl.DataFrame({"shard": part.table.names()} | columns).head(len(indexed))
    snapshot, table = snapshot or part.numbered.snapshot, table or part.table
    return count_faults(part.storage, snapshot, table, rows, indexed)


def test_equal_counts_are_no_fault(part):
    assert faults_of(part) == []
    assert faults_of(part, samples=[2, 3], streamed=[2, 3], rejected=[1, 0]) == []


def test_a_sizes_json_with_other_counts_or_shards_is_a_fault(part):
    first, second = part.table.names()
    write_sizes(part, {first: 3, second: 4, "other.tar": 3})
    faults = faults_of(part)
    assert f"sizes.json: {second} is 4, the snapshot says 3" in faults
    assert "sizes.json: other.tar is 3, the snapshot says None" in faults
    assert f"{second}: 3 samples arrived, 3 by streaming; sizes.json says 4" in faults
    assert len(faults) == 3
    part.storage.write("sizes.json", b"{")
    (fault,) = faults_of(part)
    assert "not valid JSON" in fault


def test_a_snapshot_with_another_number_of_samples_is_a_fault(part):
    assert faults_of(part, snapshot=snapshot_of(part, 7)) == ["the snapshot has 7 samples, its table of shards has 6"]


@pytest.mark.parametrize(
    ("samples", "streamed", "rejected", "fault"),
    [
        (2, 3, 0, "2 samples arrived, 3 by streaming; sizes.json says 3"),
        (3, 2, 0, "3 samples arrived, 2 by streaming; sizes.json says 3"),
        (3, 3, 1, "3 samples arrived, 3 by streaming, 1 have no latents; sizes.json says 3"),
        (1, 2, 1, "1 samples arrived, 2 by streaming, 1 have no latents; sizes.json says 3"),
    ],
)
def test_a_shard_with_another_number_of_samples_is_a_fault(part, samples, streamed, rejected, fault):
    _, second = part.table.names()
    faults = faults_of(part, samples=[3, samples], streamed=[3, streamed], rejected=[0, rejected])
    assert faults == [f"{second}: {fault}"]


def test_an_index_with_another_number_of_samples_is_a_fault(part):
    first, second = part.table.names()
    assert faults_of(part, indexed=(3, 4)) == [f"{second}: its index lists 4 samples, the snapshot says 3"]
    assert faults_of(part, indexed=(2,)) == [f"{first}: its index lists 2 samples, the snapshot says 3"]


def test_the_indexes_of_the_shards_that_are_read_are_counted_with_rejected_samples(part):
    expected = read_expected(part.storage, part.table)
    assert expected.num_indexed(2) == [3, 3]
    assert replace(expected, rejected=np.array([1], np.int32)).num_indexed(3) == [3, 4, 0]
