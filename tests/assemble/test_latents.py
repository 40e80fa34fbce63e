"""Latent shards: their content, when they are made again, and errors."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from headrace.errors import BuildError, IntegrityError, SampleError, StorageError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import newest_manifest
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.audio_shards import commit, noise, tone, write_partition
from tests.support.latent_builds import MEL, PARTITION, Latents


@pytest.fixture
def latents(tmp_path: Path) -> Latents:
    """Two audio shards without latents."""
    made = Latents(tmp_path)
    shards = [{f"a{i}": tone(0.3 + 0.2 * i) for i in range(4)}, {f"b{i}": noise(9000 + i, i) for i in range(3)}]
    write_partition(made.audio, shards, metadata={"a0": {"title": "Ä", "labels": [1, 2]}})
    return made


def test_each_audio_shard_gives_one_latent_shard_with_the_same_place(latents: Latents) -> None:
    """Samples, order and number are equal. The manifest names the audio that it was made from."""
    build = latents.build()
    assert [name.rpartition("-")[0] for name in build.written] == [
        "latent_train_0000_000000",
        "latent_train_0000_000001",
    ]
    shards = build.manifest.manifest.shards
    keys = [read_index(latents.storage, shard.name).keys() for shard in shards]
    assert keys == [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2"]]
    assert [shard.num_planned for shard in shards] == [4, 3]
    assert build.manifest.manifest.source == newest_manifest(latents.audio, PARTITION).manifest.digest
    assert latents.done == 7
    assert build.stats.num_batches > 0
    assert build.stats.audio_seconds == pytest.approx(2.4 + 27_003 / 16_000)


def test_a_sample_contains_latents_metadata_and_provenance(latents: Latents) -> None:
    """The .pth loads with weights_only, the raw tensor is equal, and the user's columns are in the JSON."""
    shard = latents.build().written[0]
    payload, about, raw = latents.sample(shard, "a0")
    assert payload["encoder_length"] == 31
    assert torch.equal(payload["encoder_hidden"], torch.from_numpy(raw.copy()))
    assert (about["title"], about["labels"]) == ("Ä", [1, 2])
    assert about["headrace"]["encoder"] == latents.settings.encoder
    assert about["headrace"]["frame_rate_hz"] == 100.0
    assert about["headrace"]["source"] == "a0.wav"
    index = latents.index(shard)
    assert index.num_frames.tolist() == [31, 51, 71, 91]
    assert index.tensor_dtype == "float32"


def test_latents_equal_the_encoders_result_for_the_decoded_audio(latents: Latents) -> None:
    """The result is the same in a batch and alone."""
    shard = latents.build().written[1]
    samples = (noise(9001, 1) * 32768).round() / 32768  # 16 bits
    expected, _ = latents.encoders()[0].encode(
        torch.from_numpy(samples.astype(np.float32))[None, None], torch.tensor([9001])
    )
    assert np.allclose(latents.sample(shard, "b1")[2], expected[0], atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_dtype_is_stored_in_full(latents: Latents, dtype: str) -> None:
    """The file contains only the tensor, and its raw bytes are at the range in the index."""
    latents.settings = LatentSettings(latents.settings.encoder, dtype)
    shard = latents.build().written[0]
    index, blob = latents.index(shard), latents.storage.read(shard)
    for i in range(len(index)):
        start, stop, num_latent, dim = (int(value) for value in index.tensors[i, 0])
        tensor = torch.load(io.BytesIO(blob[slice(*index.range_of(i, "pth"))]), weights_only=True)["encoder_hidden"]
        raw = torch.frombuffer(bytearray(blob[start:stop]), dtype=tensor.dtype).reshape(num_latent, dim)
        assert str(tensor.dtype) == f"torch.{dtype}" == f"torch.{index.tensor_dtype}"
        assert torch.equal(raw, tensor)
        assert stop - start < np.diff(index.range_of(i, "pth"))[0] < stop - start + 2000


@pytest.mark.medium
def test_the_same_audio_gives_the_same_bytes_in_any_batch(tmp_path: Path) -> None:
    """This holds on one machine, for an encoder whose rows are independent. Names are content digests."""
    names = []
    for i, options in enumerate(
        [{}, {"batch_seconds": 1.0, "num_threads": 1}, {"batch_seconds": 7.0, "num_threads": 3}]
    ):
        made = Latents(tmp_path / str(i))
        write_partition(made.audio, [{f"k{j}": noise(5000 + 777 * j, j) for j in range(9)}])
        names.append(made.build(**options).written)
    assert names[0] == names[1] == names[2]


def test_a_second_build_does_nothing_and_loads_no_encoder(latents: Latents) -> None:
    """The encoder is not loaded either."""
    first = latents.build()
    latents.encoders = lambda: pytest.fail("the encoder was loaded")
    again = latents.build()
    assert again.manifest == first.manifest
    assert again.written == ()
    assert again.reused == first.written
    assert latents.done == 14


@pytest.mark.medium
def test_after_a_changed_recording_only_its_latent_shard_is_made_again(latents: Latents) -> None:
    """The other shard is reused."""
    first = latents.build()
    shards = [{f"a{i}": tone(0.3 + 0.2 * i) for i in range(4)}, {f"b{i}": noise(9000 + i, i + 7) for i in range(3)}]
    write_partition(latents.audio, shards, metadata={"a0": {"title": "Ä", "labels": [1, 2]}})
    second = latents.build()
    assert second.reused == first.written[:1]
    assert len(second.written) == 1
    assert second.written != first.written[1:]


@pytest.mark.medium
def test_a_changed_encoder_makes_all_of_its_own_shards_again_and_no_others(latents: Latents, tmp_path: Path) -> None:
    """The other set is unchanged, and a return to the first encoder finds its old shards."""
    first = latents.build()
    beside = Latents(tmp_path)
    beside.storage = LocalStorage(tmp_path / "latents" / "beside")
    number = beside.build().manifest.number
    other = Latents(tmp_path, num_mels=9).build()
    assert (other.reused, len(other.written)) == ((), 2)
    assert beside.build().manifest.number == number
    back = latents.build()
    assert (back.reused, back.written) == (first.written, ())


@pytest.mark.medium
def test_shards_without_an_index_or_truncated_are_made_again(latents: Latents) -> None:
    """The state after a killed build: a tar without index, one complete shard, no manifest."""
    first = latents.build()
    for number in range(1, 3):
        latents.storage.delete(f"manifests/{PARTITION}/{number:08d}.json")
    latents.storage.delete(index_name(first.written[0]))
    second = latents.build()
    assert second.written == first.written[:1]
    assert second.reused == first.written[1:]


def test_finished_shards_survive_a_crash(latents: Latents) -> None:
    """One group is published, then the audio of the second one is found to be damaged."""
    _damage(latents, 1)
    with pytest.raises(IntegrityError):
        latents.build(batch_seconds=0.05)  # 32 batches of this length: each shard is a group
    assert newest_manifest(latents.storage, PARTITION) is None
    write_partition(
        latents.audio,
        [{f"a{i}": tone(0.3 + 0.2 * i) for i in range(4)}],
        metadata={"a0": {"title": "Ä", "labels": [1, 2]}},
    )
    assert latents.build().written == ()


def _damage(latents: Latents, shard: int, at: float = 0.5) -> str:
    """Flip one byte of an audio shard."""
    name = newest_manifest(latents.audio, PARTITION).manifest.shards[shard].name
    path = latents.audio.local_path(name)
    content = bytearray(path.read_bytes())
    content[int(len(content) * at)] ^= 0xFF
    path.write_bytes(content)
    return name


@pytest.mark.parametrize("at", [0.02, 0.5, 0.97])
def test_the_error_about_a_damaged_audio_shard_names_it(latents: Latents, at: float) -> None:
    """The damage may be in the audio, the JSON or the headers."""
    name = _damage(latents, 0, at)
    with pytest.raises(IntegrityError, match=name):
        latents.build()


def test_the_error_about_a_truncated_audio_shard_names_it(latents: Latents) -> None:
    """The size shows it."""
    name = newest_manifest(latents.audio, PARTITION).manifest.shards[0].name
    path = latents.audio.local_path(name)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(IntegrityError, match=name):
        latents.build()


def test_the_error_about_missing_audio_says_what_to_build_first(latents: Latents) -> None:
    """It names the audio shards of that partition."""
    with pytest.raises(BuildError, match="train-0001: no audio shards"):
        latents.build("train-0001")


class _Broken:
    """An encoder that gives a fixed result for one length, and otherwise that of log_mel."""

    def __init__(self, value: float, num_frames: int) -> None:
        self._own = encoders.load("log_mel", MEL)
        self._value, self._num_frames = value, num_frames

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, num_latent = self._own.encode(batch, lengths)
        hidden[lengths == self._num_frames, 0, 0] = self._value
        return hidden, num_latent


class _Greedy(_Broken):
    """An encoder with memory for this many rows."""

    def __init__(self, num_rows: int) -> None:
        super().__init__(0.0, -1)
        self._num_rows = num_rows
        self.device = "cpu"

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if len(batch) > self._num_rows:
            raise torch.OutOfMemoryError("no room")
        return super().encode(batch, lengths)


def test_out_of_memory_halves_the_batches_and_logs_it_once(
    latents: Latents, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The result is the same as with enough memory."""
    latents.encoders = lambda: [_Greedy(1)]
    with caplog.at_level("WARNING"):
        build = latents.build()
    assert build.stats.halvings >= 1
    assert sum("out of memory" in record.message for record in caplog.records) == 1
    roomy = Latents(tmp_path)
    roomy.storage = LocalStorage(tmp_path / "roomy")
    assert roomy.build().written == build.written


def test_a_single_row_that_does_not_fit_is_an_error(latents: Latents) -> None:
    """The error names the sample and what to do."""
    latents.encoders = lambda: [_Greedy(0)]
    with pytest.raises(BuildError, match=r"sample 'a3'.*even alone"):
        latents.build()


def test_an_encoder_that_differs_from_the_settings_is_an_error(latents: Latents) -> None:
    """Its weights changed between planning and loading."""
    latents.settings = LatentSettings("0" * 64)
    with pytest.raises(BuildError, match="fingerprint"):
        latents.build()


def test_a_full_disk_is_an_error_and_leaves_no_shard(latents: Latents, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next build, with free space, finishes the job."""
    write = LocalStorage.write

    def full(self: LocalStorage, path: str, data: object) -> None:
        if "_000001-" in path:
            raise StorageError(f"{path}: No space left on device")
        write(self, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "write", full)
        with pytest.raises(StorageError, match="No space left"):
            latents.build()
    assert [entry.path for entry in latents.storage.list() if "_000001-" in entry.path] == []
    assert len(latents.build().manifest.manifest.shards) == 2


def test_the_shortest_sample_gives_one_frame(tmp_path: Path) -> None:
    """The samples have one PCM frame and 5 ms."""
    made = Latents(tmp_path)
    write_partition(made.audio, [{"one": noise(1, 0), "five_ms": noise(80, 1)}])
    assert made.index(made.build().written[0]).num_frames.tolist() == [1, 1]


@pytest.mark.medium
def test_audio_is_converted_to_the_encoders_rate_and_channels(tmp_path: Path) -> None:
    """44.1 kHz stereo becomes 16 kHz mono, and the tone keeps its frequency."""
    made = Latents(tmp_path)
    mono = tone(1.0, 440.0, 44_100)
    write_partition(made.audio, [{"stereo": np.stack([mono, mono], axis=1)}], sample_rate_hz=44_100)
    same = Latents(tmp_path / "same")
    write_partition(same.audio, [{"stereo": tone(1.0)}])
    found, expected = (each.sample(each.build().written[0], "stereo")[2] for each in (made, same))
    assert found.shape == expected.shape
    loud = expected > -8  # the other bands contain the rounding to 16 bits
    assert np.abs(found - expected)[5:-5][loud[5:-5]].max() < 0.01


def test_the_error_about_three_channels_names_the_yaml_key_to_set(tmp_path: Path) -> None:
    """An encoder with two channels cannot choose among three."""
    made = Latents(tmp_path)
    write_partition(made.audio, [{"wide": np.zeros((4000, 3), np.float32)}])
    stereo = _Broken(0.0, -1)
    stereo.num_channels = 2
    made.encoders = lambda: [stereo]
    with pytest.raises(SampleError, match=r"audio\.num_channels"):
        made.build()


@pytest.mark.medium
def test_progress_and_padding_are_counted(tmp_path: Path) -> None:
    """Sorted by length, little is padded although lengths vary from 1 to 30."""
    made = Latents(tmp_path)
    lengths = np.random.default_rng(0).integers(1_000, 30_000, 400)
    clips = [{f"k{i:03d}": noise(int(n), i) for i, n in enumerate(lengths) if i // 50 == part} for part in range(8)]
    write_partition(made.audio, clips)
    build = made.build(batch_seconds=7.5)  # the ratio of a budget of 120 s to clips of 1-30 s
    assert made.done == 400
    assert 0 < build.stats.padding_share < 0.05
    assert build.stats.busy_share <= 1


def test_several_devices_share_the_work(latents: Latents) -> None:
    """Two encoders give the same shards."""
    ran: list[int] = []

    class Counting(_Greedy):
        def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            ran.append(id(self))
            return super().encode(batch, lengths)

    latents.encoders = lambda: [Counting(99), Counting(99)]
    build = latents.build(batch_seconds=0.4)
    assert len(set(ran)) == 2
    assert build.stats.devices == ("cpu", "cpu")
    assert len(build.written) == 2


def test_an_object_store_works_like_a_folder(tmp_path: Path) -> None:
    """Audio is copied to a temporary file and verified. The copy is deleted afterwards."""
    made = Latents(tmp_path)
    made.audio, made.storage = open_storage("memory://audio"), open_storage("memory://latents")
    write_partition(made.audio, [{"a": tone(0.5), "b": tone(0.7)}])
    assert made.index(made.build().written[0]).num_frames.tolist() == [51, 71]


def test_a_latent_snapshot_names_its_audio_snapshot(latents: Latents) -> None:
    """While partitions are missing or stale, committing is an error."""
    audio = commit(latents.audio, newest_manifest(latents.audio, PARTITION))
    with pytest.raises(BuildError, match=PARTITION):
        commit_latents(latents.audio, latents.storage, latents.settings)
    latents.build()
    numbered, is_new = commit_latents(latents.audio, latents.storage, latents.settings)
    assert is_new
    assert numbered.snapshot.origin == {
        "audio_snapshot": audio.number,
        "audio_fingerprint": audio.snapshot.fingerprint,
        "encoder": latents.settings.encoder,
        "dtype": "float32",
        "frame_rate_hz": 100.0,
    }
    assert numbered.snapshot.catalog == audio.snapshot.catalog
    assert read_table(latents.storage, numbered.snapshot).num_samples.tolist() == [4, 3]
    assert commit_latents(latents.audio, latents.storage, latents.settings) == (numbered, False)
    write_partition(latents.audio, [{"new": tone(0.2)}])
    commit(latents.audio, newest_manifest(latents.audio, PARTITION))
    with pytest.raises(BuildError, match="audio snapshot 2"):
        commit_latents(latents.audio, latents.storage, latents.settings)


def test_latents_of_an_old_snapshot_stay_when_those_of_the_next_are_committed(latents: Latents) -> None:
    """Each snapshot of latents belongs to one audio snapshot, and keeps its shards."""
    commit(latents.audio, newest_manifest(latents.audio, PARTITION))
    old = latents.build()
    assert old.manifest.manifest.num_samples == 7
    first, _ = commit_latents(latents.audio, latents.storage, latents.settings)
    assert first.snapshot.origin["audio_snapshot"] == 1
    write_partition(latents.audio, [{"new": tone(0.2)}])
    commit(latents.audio, newest_manifest(latents.audio, PARTITION))
    assert latents.build().manifest.manifest.num_samples == 1
    second, _ = commit_latents(latents.audio, latents.storage, latents.settings)
    assert second.snapshot.origin["audio_snapshot"] == 2
    assert read_snapshot(latents.storage, 1).snapshot.num_samples == 7
    for shard in old.written:
        assert hashlib.sha256(latents.storage.read(shard)).hexdigest() == latents.index(shard).sha256
