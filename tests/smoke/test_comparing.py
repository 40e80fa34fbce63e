"""The facts that the smoke test compares: what arrived, what the indexes list, and how differences are described."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from headrace.errors import IntegrityError
from headrace.format.indexes.audio_fields import AudioFacts
from headrace.format.indexes.index_entries import SampleEntry, build_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.tensors.tensors import TensorPlace
from headrace.smoke.arrivals import (
    ArrivedSample,
    JoinedArrival,
    arrived_batch,
    arrived_sample,
    content_of,
    joined_batch,
    width_of,
)
from headrace.smoke.comparing import SampleComparer, SeenSamples, note
from headrace.smoke.counts import count_faults
from headrace.smoke.expected import ExpectedSamples, _expected_of, read_expected
from headrace.smoke.run import SmokePart
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset

STATED = {"num_frames": 4, "sample_rate": 8000, "num_channels": 1, "frame_rate_hz": 50}
CHECKS = ("every_key_once", "shapes_and_lengths", "finite_values", "matches_json", "same_in_both_readers")


def audio_sample(values=(0.5, -1.0, 1.0, 0.0), **stated):
    return {
        "__key__": "a", "audio": torch.tensor([values]), "sample_rate": 8000, "metadata": {"headrace": STATED | stated},
    }  # fmt: skip


def latent_sample(length, seconds):
    hidden = torch.arange(3.0 * (length + 1)).reshape(length + 1, 3)
    stated = STATED | {"num_frames": 8000 * seconds}
    return {
        "__key__": "a", "encoder_hidden": hidden, "encoder_length": length, "metadata": {"headrace": stated},
    }  # fmt: skip


def test_facts_of_audio():
    found = arrived_sample(audio_sample())
    assert found == ArrivedSample("a", 4, 1, 8000, True, content_of(torch.tensor([[0.5, -1.0, 1.0, 0.0]])), "")
    assert found.content != arrived_sample(audio_sample((0.5, 0.0, 1.0, 0.0))).content
    beyond = arrived_sample(audio_sample((0.5, -1.001, 1.0, 0.0)))
    assert (beyond.is_finite, beyond.exceeds) == (True, True)
    assert not arrived_sample(audio_sample((0.5, float("nan"), 1.0, 0.0))).is_finite
    assert not arrived_sample(audio_sample((0.5, float("-inf"), 1.0, 0.0))).is_finite
    assert ArrivedSample("a", 4, 1, 8000, is_finite=True).content == 0


def test_audio_that_contradicts_its_json_says_how():
    wrong = arrived_sample(audio_sample(num_frames=5, num_channels=2)).contradiction
    assert wrong == "num_frames is 4, the sample's JSON says 5; num_channels is 1, the sample's JSON says 2"


def test_facts_of_latents():
    found = arrived_sample(latent_sample(50, seconds=1))
    assert (found.num_frames, found.width, found.sample_rate_hz, found.is_finite) == (50, 3, 0, True)
    assert found.content == content_of(torch.arange(150.0).reshape(50, 3))  # without what follows its length


@pytest.mark.parametrize(
    ("length", "seconds", "fits"),
    [(48, 1, True), (52, 1, True), (47, 1, False), (53, 1, False), (505, 10, True), (506, 10, False), (0, 0, True)],
)
def test_latents_may_be_two_frames_or_a_hundredth_longer_or_shorter_than_their_audio(length, seconds, fits):
    wrong = arrived_sample(latent_sample(length, seconds)).contradiction
    assert wrong == ("" if fits else f"{length} latent frames, expected {50 * seconds}.0 from the length of its audio")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_latents_have_no_limit_and_are_finite(dtype):
    sample = latent_sample(50, seconds=1)
    sample["encoder_hidden"] = torch.full((51, 3), 7.0, dtype=dtype)
    assert (arrived_sample(sample).is_finite, arrived_sample(sample).exceeds) == (True, False)
    sample["encoder_hidden"][2, 1] = float("nan")
    assert not arrived_sample(sample).is_finite
    assert content_of(torch.zeros(0, 3)) == 0


def batch_of(**more):
    return {
        "keys": ["a", "", "b"],
        "metadata": [{"headrace": STATED}, None, {"headrace": STATED | {"num_frames": 2}}],
        "audio": torch.arange(12.0).reshape(3, 1, 4) / 12,
        "num_frames": torch.tensor([4, 0, 2]),
        "sample_rate": torch.tensor([8000, 0, 8000]),
        "is_padding": torch.tensor([False, True, False]),
    } | more  # fmt: skip


def test_rows_of_a_batch_are_samples_without_padding():
    found = list(arrived_batch(batch_of()))
    assert [(sample.key, sample.num_frames, sample.contradiction) for sample in found] == [("a", 4, ""), ("b", 2, "")]
    batch = batch_of(keys=["a"])
    del batch["is_padding"]
    assert [sample.key for sample in arrived_batch(batch)] == ["a"]


def test_rows_of_latents_end_at_their_lengths():
    hidden = torch.arange(300.0).reshape(2, 50, 3)
    stated = {"headrace": STATED | {"num_frames": 8000}}
    batch = {
        "keys": ["a", "b"], "metadata": [stated, stated], "encoder_hidden": hidden,
        "encoder_length": torch.tensor([50, 49]),
    }  # fmt: skip
    assert [sample.num_frames for sample in arrived_batch(batch)] == [50, 49]


def test_joined_rows_have_the_values_of_audio_and_latents():
    hidden = torch.arange(30.0).reshape(3, 2, 5)
    batch = batch_of(encoder_hidden_x=hidden, encoder_length_x=torch.tensor([2, 0, 1]))
    contents = [tuple(map(content_of, parts)) for parts in (
        (batch["audio"][0], hidden[0]), (batch["audio"][2, :, :2], hidden[2, :1]),
    )]  # fmt: skip
    assert list(joined_batch(batch, ["_x"])) == [JoinedArrival("a", contents[0]), JoinedArrival("b", contents[1])]


def index_of(*keys, num_channels=1, sample_rate_hz=8000, field="flac"):
    entries = [SampleEntry(key, {field: (n, n + 1)}, 4, sample_rate_hz, num_channels) for n, key in enumerate(keys)]
    return build_index(entries, shard="s.tar", num_bytes=100)


def expected_of(*indexes):
    """The expected samples of some shards, sorted as `read_expected` does."""
    parts = [_expected_of(index, row) for row, index in enumerate(indexes)]
    order = np.argsort(np.concatenate([part.hashes for part in parts]))
    names = ("hashes", "shard", "num_frames", "width", "sample_rate_hz", "is_flac")
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
    entries = [SampleEntry(key, {"pth": (0, 50)}, 9, 0, 0, TensorPlace(10, 34, 2, 3)) for key in "ab"]
    index = build_index(entries, shard="s.tar", num_bytes=100, tensor_dtype="float32")
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
    """What a comparison notes of these samples, where 'a' and 'b' are expected; and its result."""
    expected = expected or expected_of(index_of(*keys))
    faults = {name: [] for name in CHECKS}
    seen = SeenSamples.none_of(expected)

    def come():
        yield from arrivals
        if error is not None:
            raise error

    result = SampleComparer(expected, ["s.tar", "s.tar"], faults).read("plain", come, seen)
    return {name: found for name, found in faults.items() if found}, seen, result


def sample(key, **changes):
    return replace(ArrivedSample(key, 4, 1, 8000, is_finite=True, content=7), **changes)


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
