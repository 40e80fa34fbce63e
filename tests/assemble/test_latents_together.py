"""Several sets of latents of one partition are made from audio that is read once, as each would be made alone."""

import threading
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.assemble.latents_together import LatentSet, build_latent_partitions
from headrace.encoding import clips, shared_audio
from headrace.encoding.plans import EncodingOptions
from headrace.errors import BuildError, IntegrityError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import MEL, PARTITION, Broken

KINDS = {
    "low": ("log_mel", {"num_mels": 8, "sample_rate_hz": 16_000}),
    "high": ("log_mel", {"num_mels": 16, "sample_rate_hz": 22_050}),
    "bank": ("fbank", {"num_mels": 8, "sample_rate_hz": 16_000}),
}
RATE_HZ = 44_100
LENGTHS = [[4410, 13_000, 30_000], [9000, 9001, 70_000, 5000], [12_345]]
NUM_CLIPS = sum(map(len, LENGTHS))


@pytest.fixture
def audio(tmp_path):
    storage = LocalStorage(tmp_path / "audio")
    shards = [
        {f"{s}_{i}": np.stack([noise(n, i), noise(n, 50 + s)], axis=1) for i, n in enumerate(lengths)}
        for s, lengths in enumerate(LENGTHS)
    ]
    write_partition(storage, shards, sample_rate_hz=RATE_HZ)
    return storage


class Sets:
    """Sets of latents below a folder."""

    def __init__(self, root, audio):
        self.root, self.audio, self.done = root, audio, 0

    def of(self, name, **other):
        kind, settings = KINDS[name]
        parts = {
            "settings": LatentSettings(encoders.fingerprint(kind, settings), "float32"),
            "encoders": lambda: [encoders.load(kind, settings)],
            "storage": LocalStorage(self.root / name),
        }
        return LatentSet(name, **parts | other)

    def together(self, *sets, **options):
        sets = sets or [self.of(name) for name in KINDS]
        options = EncodingOptions(batch_seconds=0.5, **options)
        return build_latent_partitions(PARTITION, sets, self.audio, options=options, progress=self._count)

    def alone(self, name):
        one = self.of(name)
        options = EncodingOptions(batch_seconds=0.5)
        return build_latent_partition(PARTITION, one.settings, one.encoders, self.audio, one.storage, options=options)

    def _count(self, num_samples):
        self.done += num_samples


@pytest.fixture
def sets(tmp_path, audio):
    return Sets(tmp_path / "together", audio)


def files(root):
    """Path → bytes of all files below a folder, but those that list shards as they come."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if ".journal" not in name}


class Counts:
    """Counts what is fetched, decoded and resampled."""

    def __init__(self, monkeypatch):
        self.decoded, self.resampled, self.fetched = Counter(), Counter(), Counter()
        decode_into, resample, local_shard = clips.decode_into, clips.soxr.resample, shared_audio.local_shard
        lock = threading.Lock()

        def counting_decode(data, out, start_frame=0):
            with lock:
                self.decoded[bytes(data)] += 1
            decode_into(data, out, start_frame)

        def counting_resample(samples, rate_hz, to_hz, quality):
            with lock:
                self.resampled[samples.tobytes(), to_hz] += 1
            return resample(samples, rate_hz, to_hz, quality=quality)

        @contextmanager
        def counting_fetch(storage, name):
            with lock:
                self.fetched[name] += 1
            with local_shard(storage, name) as shard:
                yield shard

        monkeypatch.setattr(clips, "decode_into", counting_decode)
        monkeypatch.setattr(clips.soxr, "resample", counting_resample)
        monkeypatch.setattr(shared_audio, "local_shard", counting_fetch)


@pytest.mark.medium
def test_shards_and_manifests_are_those_of_each_set_alone(tmp_path, audio, sets):
    alone = Sets(tmp_path / "alone", audio)
    for name in KINDS:
        alone.alone(name)
    sets.together()
    assert files(sets.root) == files(alone.root)
    assert len(files(sets.root)) > 3 * len(LENGTHS)


@pytest.mark.medium
def test_each_clip_is_fetched_and_decoded_once_and_resampled_once_for_each_rate(monkeypatch, sets):
    counts = Counts(monkeypatch)
    builds = sets.together()
    assert all(len(build.written) == len(LENGTHS) for build in builds.values())
    assert set(counts.fetched.values()) == {1}
    num_alone = len(KINDS)  # each set encodes one clip again, alone, when the clip may be gone
    assert NUM_CLIPS <= counts.decoded.total() <= NUM_CLIPS + num_alone
    assert 2 * NUM_CLIPS <= counts.resampled.total() <= 2 * NUM_CLIPS + num_alone


@pytest.mark.medium
def test_nothing_is_in_memory_or_open_at_the_end(monkeypatch, sets):
    made = []

    class Kept(shared_audio.SharedAudio):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr("headrace.assemble.latents_together.SharedAudio", Kept)
    sets.together()
    (shared,) = made
    assert (shared.num_bytes, shared._shards, shared._needed) == (0, {}, {})


@pytest.mark.medium
def test_progress_counts_the_samples_of_all_sets(sets):
    sets.together()
    assert sets.done == len(KINDS) * NUM_CLIPS


def test_a_set_that_fails_stops_only_itself(tmp_path, audio, sets):
    class Failing(Broken):
        def encode(self, batch, lengths):
            raise ValueError("no such layer")

    fingerprint = encoders.fingerprint("log_mel", MEL)
    broken = sets.of("low", encoders=lambda: [Failing({})], settings=LatentSettings(fingerprint, "float32"))
    builds = sets.together(broken, sets.of("high"), sets.of("bank"))
    assert isinstance(builds["low"], BuildError)
    assert "no such layer" in str(builds["low"])
    alone = Sets(tmp_path / "alone", audio)
    for name in ("high", "bank"):
        assert builds[name].manifest == alone.alone(name).manifest
    assert newest_manifest(broken.storage, PARTITION) is None


def test_an_audio_shard_that_is_damaged_fails_each_set_with_its_name(audio, sets):
    shard = newest_manifest(audio, PARTITION).manifest.shards[0].name
    path = audio.local_path(shard)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    builds = sets.together()
    assert all(isinstance(error, IntegrityError) and shard in str(error) for error in builds.values())


def test_ctrl_c_ends_all_sets_soon(monkeypatch, sets):
    class Interrupted(shared_audio.SharedAudio):
        def stop(self):
            super().stop()
            stopped.set()

    class Waiting(Broken):
        def encode(self, batch, lengths):
            assert stopped.wait(10)
            return super().encode(batch, lengths)

    def interrupt(_builds):
        raise KeyboardInterrupt

    stopped = threading.Event()
    fingerprint = encoders.fingerprint("log_mel", MEL)
    slow = sets.of("low", encoders=lambda: [Waiting({})], settings=LatentSettings(fingerprint, "float32"))
    monkeypatch.setattr("headrace.assemble.latents_together.SharedAudio", Interrupted)
    monkeypatch.setattr("headrace.assemble.latents_together.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sets.together(slow)
    assert newest_manifest(slow.storage, PARTITION) is None


@pytest.mark.medium
def test_a_set_that_is_up_to_date_is_not_waited_for_and_one_that_lacks_a_shard_makes_only_that(sets):
    first = sets.alone("bank")
    sets.alone("low")
    lost = first.manifest.manifest.shards[1].name
    for path in (sets.root / "bank").rglob(f"{lost}*"):
        path.unlink()
    builds = sets.together()
    assert [len(builds[name].written) for name in ("low", "high", "bank")] == [0, len(LENGTHS), 1]


def test_a_set_that_is_slow_and_one_that_loads_late_wait_for_each_other_and_end(sets):
    entered = threading.Event()

    class Slow(Broken):
        def encode(self, batch, lengths):
            entered.wait(10)
            return super().encode(batch, lengths)

    def load_late():
        entered.set()
        return [encoders.load(*KINDS["high"])]

    fingerprint = encoders.fingerprint("log_mel", MEL)
    slow = sets.of("low", encoders=lambda: [Slow({})], settings=LatentSettings(fingerprint, "float32"))
    builds = sets.together(slow, sets.of("high", encoders=load_late))
    assert [len(build.written) for build in builds.values()] == [len(LENGTHS)] * 2
