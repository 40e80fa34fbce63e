"""The smoke test of latents: they equal the encoder's result, have the keys of the audio, and can be joined."""

from collections.abc import Mapping
from itertools import chain

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.assemble.commit import commit_latents
from headrace.config.operation import LoaderConfig
from headrace.encoders import EncoderInfo
from headrace.errors import SampleError
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.smoke.arrivals import JoinedArrival
from headrace.smoke.choice import ReadLimits
from headrace.smoke.comparing import SeenSamples
from headrace.smoke.expected import read_expected
from headrace.smoke.joined import JoinedReading, PartRead, spans_of
from headrace.smoke.run import SmokePart, SmokeResult, smoke_test
from headrace.streaming.loader import StreamingDataLoader
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import Latents
from tests.support.latent_damage import replace_latents

pytestmark = pytest.mark.medium

IN_PROCESS = LoaderConfig(num_workers=0, batch_size=3)
NUM_SHARDS = 3
MEL = "latents mel"


def shards_of(bucket: int) -> list[dict[str, object]]:
    """Clips of one length, so that swapped latents have the right length."""
    return [
        {f"b{bucket}s{shard}k{i}": noise(4000, 100 * bucket + 10 * shard + i) for i in range(3)}
        for shard in range(NUM_SHARDS)
    ]


class Data(Latents):
    """Audio and latents in two partitions."""

    def commit(self) -> None:
        manifests = [
            write_partition(self.audio, shards_of(bucket), partition=f"train-{bucket:04d}") for bucket in range(2)
        ]
        commit(self.audio, *manifests)
        for bucket in range(2):
            self.build(f"train-{bucket:04d}")
        commit_latents(self.audio, self.storage, self.settings)

    def smoke(self, loader: LoaderConfig = IN_PROCESS, **more: object) -> dict[str, SmokeResult]:
        parts = {"audio": SmokePart.newest(self.audio), MEL: SmokePart.newest(self.storage)}
        return smoke_test(parts, loader, encoders={MEL: self.encoders}, **more)


@pytest.fixture
def data(tmp_path):
    made = Data(tmp_path)
    made.commit()
    return made


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Data as of `data`, made once for the module. Tests must not change it."""
    made = Data(tmp_path_factory.mktemp("sound"))
    made.commit()
    return made


def faulty(results: Mapping[str, SmokeResult]) -> dict[str, set[str]]:
    found = {part: {name for name, faults in result.faults.items() if faults} for part, result in results.items()}
    return {part: names for part, names in found.items() if names}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_valid_latents_pass_alone_joined_and_encoded_again(sound, num_workers):
    results = sound.smoke(LoaderConfig(num_workers=num_workers, batch_size=3))
    assert faulty(results) == {}
    assert results["audio"].num_joined == results["audio"].num_samples == results[MEL].num_streamed == 18
    assert len(results[MEL].encoded) == 2
    assert results["audio"].encoded == []


def swapped(latents: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Each sample has the latents of the next one."""
    values = list(latents.values())
    return dict(zip(latents, [*values[1:], values[0]], strict=True))


def rolled(latents: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Each sample has its latents shifted by one frame."""
    return {key: hidden.roll(1, dims=0) for key, hidden in latents.items()}


def zeroed(latents: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return {key: torch.zeros_like(hidden) for key, hidden in latents.items()}


@pytest.mark.parametrize("change", [swapped, rolled, zeroed], ids=lambda change: change.__name__)
def test_latents_of_other_audio_are_an_error(data, change):
    """All digests, indexes and counts are correct. Only the encoder can detect it."""
    replace_latents(data.storage, change)
    assert verify(find_target(data.storage.uri), Depth(samples_per_shard=3)).faults == []
    results = data.smoke()
    assert faulty(results) == {MEL: {"latents_match_audio"}}
    assert (
        "differ from the encoder's result for its audio: encoded alone, a frame differs by"
        in (results[MEL].faults["latents_match_audio"][0])
    )


@pytest.mark.slow
def test_one_sample_per_partition_is_encoded_again_and_another_one_for_each_snapshot(data):
    first = keys(data.smoke())
    assert first == keys(data.smoke())
    assert {key[:2] for key in first} == {"b0", "b1"}
    seen = set(first)
    for scale in range(2, 12):
        replace_latents(data.storage, lambda latents, scale=scale: {k: v * scale for k, v in latents.items()})
        seen |= set(keys(data.smoke()))
    assert len(seen) > 6


def keys(results: Mapping[str, SmokeResult]) -> list[str]:
    return [text.partition(":")[0] for text in results[MEL].encoded]


def test_the_budget_limits_the_samples_that_are_encoded_again(sound):
    assert len(keys(sound.smoke(limits=ReadLimits(num_encoded=1)))) == 1


def test_the_error_about_latents_of_another_encoder_names_both_encoders(data):
    before = data.encoders()[0].fingerprint[:12]
    data.encoders = lambda: [encoders.load("log_mel", {"num_mels": 9})]
    now = data.encoders()[0].fingerprint[:12]
    results = data.smoke()
    assert faulty(results) == {MEL: {"latents_match_audio"}}
    assert (
        f"the shard was encoded by encoder {before}, the current encoder is {now}; build these latents again"
        in results[MEL].faults["latents_match_audio"][0]
    )


class Windowed:
    """A log-mel encoder with short windows."""

    def __init__(self, own: object) -> None:
        self._own = own
        self.info = EncoderInfo(own.info.context, 12 * own.hop * 10, 2 * own.hop * 10)

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)


def test_of_a_recording_in_windows_the_first_window_is_encoded_again(tmp_path):
    data = Data(tmp_path)
    load = data.encoders
    data.encoders = lambda: [Windowed(encoder) for encoder in load()]
    manifest = write_partition(data.audio, [{"long": noise(30_000, 1), "other": noise(30_000, 2)}])
    commit(data.audio, manifest)
    data.build()
    commit_latents(data.audio, data.storage, data.settings)
    assert faulty(data.smoke()) == {}
    replace_latents(data.storage, swapped)
    assert faulty(data.smoke()) == {MEL: {"latents_match_audio"}}


class Mixed(StreamingDataLoader):
    """Gives each row the latents or the audio of the next row in the batch, if both are read."""

    field = "encoder_hidden"

    def __iter__(self):
        for batch in super().__iter__():
            if "audio" in batch and "encoder_hidden" in batch:
                batch[self.field] = batch[self.field].roll(1, dims=0)
            yield batch


@pytest.mark.parametrize(("field", "part"), [("encoder_hidden", MEL), ("audio", "audio")])
def test_audio_with_the_latents_of_another_key_is_an_error(sound, monkeypatch, field, part):
    monkeypatch.setattr("headrace.streaming.loader.StreamingDataLoader", Mixed)
    monkeypatch.setattr(Mixed, "field", field)
    results = sound.smoke()
    assert faulty(results) == {"audio": {"joined_by_key"}}
    assert (
        f"its {part} differs from the {part} of this key when read alone" in results["audio"].faults["joined_by_key"][0]
    )


def test_samples_of_no_index_are_named_and_the_others_are_counted(sound, monkeypatch):
    part = SmokePart.newest(sound.audio)
    expected = read_expected(sound.audio, part.table)
    read = PartRead(sound.audio.uri, expected, SeenSamples.none_of(expected))
    reading = JoinedReading(read, {}, 1, batch_size=3, num_workers=0)
    keys = list(chain.from_iterable(read_index(sound.audio, name).keys() for name in part.table.names()))
    arrivals = [JoinedArrival(key, (0,)) for key in ("stranger", keys[0], keys[0], *keys[1:-2])]
    monkeypatch.setattr(JoinedReading, "_arrivals", lambda *_: iter(arrivals))
    found = []
    assert reading.faults([(0, 18)], found) == 17
    assert found == [
        "stranger arrived, but is not in the index of any shard that was read",
        "2 audio samples did not arrive, 1 arrived more than once",
    ]


class FakeLoader:
    """Batches of two numbers from a position on."""

    num_batches = 0

    def state_dict(self):
        return {"epoch": 0, "sample_in_epoch": 0}

    def load_state_dict(self, state):
        assert state["epoch"] == 0
        self.position = state["sample_in_epoch"]

    def __iter__(self):
        for start in range(self.position, 20, 2):
            self.num_batches += 1
            yield [start, start + 1]


def test_spans_are_read_from_their_first_to_their_last_sample_and_no_batch_behind(sound, monkeypatch):
    monkeypatch.setattr("headrace.smoke.joined.joined_batch", lambda batch, sets: iter(batch))
    expected = read_expected(sound.audio, SmokePart.newest(sound.audio).table)
    read = PartRead(sound.audio.uri, expected, SeenSamples.none_of(expected))
    loader = FakeLoader()
    rows = list(JoinedReading(read, {}, 1, batch_size=2, num_workers=0)._read(loader, [(1, 6), (8, 9), (10, 12)]))
    assert rows == [1, 2, 3, 4, 5, 8, 10, 11]
    assert loader.num_batches == 3 + 1 + 1


class Shortened(StreamingDataLoader):
    """Loses the first batch if both are read."""

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if number or "audio" not in batch or "encoder_hidden" not in batch:
                yield batch


def test_samples_that_are_missing_when_joined_are_an_error(sound, monkeypatch):
    monkeypatch.setattr("headrace.streaming.loader.StreamingDataLoader", Shortened)
    results = sound.smoke()
    assert faulty(results) == {"audio": {"joined_by_key"}}
    assert results["audio"].faults["joined_by_key"] == ["3 audio samples did not arrive, 0 arrived more than once"]


def test_latents_of_another_audio_snapshot_are_an_error(data):
    """They cannot be joined, and missing keys cannot be compared."""
    shards = shards_of(0)
    commit(data.audio, write_partition(data.audio, [*shards, {"new": noise(4000, 77)}]))
    results = data.smoke()
    assert "joined_by_key" in faulty(results)["audio"]
    assert "has no latents in" in results["audio"].faults["joined_by_key"][0]


def test_two_sets_of_latents_are_joined_at_once(sound):
    parts = {"audio": SmokePart.newest(sound.audio), MEL: SmokePart.newest(sound.storage)}
    other = Latents(sound.audio.root.parent, num_mels=16)
    other.storage = type(sound.storage)(sound.storage.root.parent / "fine")
    for bucket in range(2):
        other.build(f"train-{bucket:04d}")
    commit_latents(other.audio, other.storage, other.settings)
    parts["latents fine"] = SmokePart.newest(other.storage)
    results = smoke_test(parts, IN_PROCESS, encoders={MEL: sound.encoders, "latents fine": other.encoders})
    assert faulty(results) == {}
    assert results["audio"].num_joined == 18
    assert len(results["latents fine"].encoded) == 2


def test_a_sample_that_cannot_be_encoded_again_is_an_error(sound, monkeypatch):
    def refuse(*_):
        raise SampleError("no such thing")

    monkeypatch.setattr("headrace.encoding.reading.read_clip", refuse)
    results = sound.smoke()
    assert faulty(results) == {MEL: {"latents_match_audio"}}
    faults = results[MEL].faults["latents_match_audio"]
    assert ["cannot be encoded again: no such thing" in fault for fault in faults] == [True, True]


def test_chosen_shards_are_ranges_of_the_sample_order(sound):
    table = SmokePart.newest(sound.audio).table
    assert spans_of(table, table) == [(0, 18)]
    assert spans_of(table, rows(table, [0, 2, 3, 5])) == [(0, 3), (6, 12), (15, 18)]
    assert spans_of(table, rows(table, [])) == []


def rows(table: ShardTable, wanted: list[int]) -> ShardTable:
    names = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")
    return type(table)(table.prefix, table.splits, **{name: getattr(table, name)[wanted] for name in names})
