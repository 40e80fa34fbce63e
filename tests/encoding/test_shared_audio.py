"""Audio that several encodings read at the same time: what is held, for how long, and who waits for whom."""

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from headrace.encoding import shared_audio
from headrace.encoding.clips import AudioForm, read_clip
from headrace.encoding.shared_audio import SharedAudio
from headrace.errors import NotFoundError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition

RATE_HZ = 44_100
FORM = AudioForm(16_000, 1)
NUM_FRAMES = 5000
CLIP_BYTES = 4 * 2 * NUM_FRAMES


@pytest.fixture
def audio(tmp_path):
    storage = LocalStorage(tmp_path)
    clip = np.stack([noise(NUM_FRAMES, 1), noise(NUM_FRAMES, 2)], axis=1)
    write_partition(storage, [{"a": clip, "b": clip}, {"c": clip}], sample_rate_hz=RATE_HZ)
    return storage


@pytest.fixture
def shards(audio):
    return [shard.name for shard in newest_manifest(audio, "train-0000").manifest.shards]


@pytest.fixture
def reads(monkeypatch):
    """The clips that were read, as `read_clip` was given them."""
    reads = []

    def counting(clip, form, start, stop):
        reads.append(clip)
        return read_clip(clip, form, start, stop)

    monkeypatch.setattr(shared_audio, "read_clip", counting)
    return reads


def opened(part, shards, stack):
    part.begin({name: number for number, name in enumerate(shards)})
    return stack.enter_context(part.shard(shards[0], ""))


def whole(part, clip):
    return part.read(clip, FORM, 0, clip.num_frames_at(FORM.sample_rate_hz))


class Two:
    """Two encodings that have opened the first shard."""

    def __init__(self, audio, shards, stack, **options):
        self.shared = SharedAudio(audio, ["one", "two"], **options)
        self.one, self.two = self.shared.part("one"), self.shared.part("two")
        self.clips = opened(self.one, shards, stack).clips
        assert opened(self.two, shards, stack).clips is self.clips


@pytest.fixture
def stack():
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield stack


def test_a_range_is_that_of_an_encoding_alone_and_is_read_once(audio, shards, stack, reads):
    two = Two(audio, shards, stack)
    clip = two.clips[0]
    alone = read_clip(clip, FORM, 0, clip.num_frames_at(16_000))
    assert np.array_equal(whole(two.one, clip), alone)
    assert two.shared.num_bytes == CLIP_BYTES + alone.nbytes
    assert np.array_equal(whole(two.two, clip), alone)
    assert len(reads) == 1
    assert two.shared.num_bytes == 0  # both have read it


def test_parts_of_a_clip_come_from_the_decoded_clip(audio, shards, stack, reads):
    two = Two(audio, shards, stack)
    clip = two.clips[0]
    for part in (two.one, two.two):
        for start, stop in ((0, 800), (800, clip.num_frames_at(16_000))):
            assert np.array_equal(part.read(clip, FORM, start, stop), read_clip(clip, FORM, start, stop))
    assert len(reads) == 2
    assert {id(read.decoded) for read in reads} == {id(reads[0].decoded)}
    assert reads[0].decoded is not None


def test_a_clip_that_all_have_read_is_not_held_again(audio, shards, stack, reads):
    two = Two(audio, shards, stack)
    for part in (two.one, two.two, two.one):
        whole(part, two.clips[0])
    assert [clip.decoded is not None for clip in reads] == [True, False]
    assert two.shared.num_bytes == 0


def test_when_the_memory_is_full_clips_are_read_as_by_an_encoding_alone(audio, shards, stack, reads):
    two = Two(audio, shards, stack, most_bytes=8 * CLIP_BYTES)
    two.shared.num_bytes += 7 * CLIP_BYTES  # of other clips
    whole(two.one, two.clips[0])
    assert two.shared.num_bytes == 8 * CLIP_BYTES  # without the resampled range, which does not fit
    whole(two.one, two.clips[1])
    assert [clip.decoded is not None for clip in reads] == [True, False]
    assert two.shared.num_bytes == 8 * CLIP_BYTES


def test_a_clip_that_is_too_long_for_the_memory_is_not_held(audio, shards, stack, reads):
    two = Two(audio, shards, stack, most_bytes=8 * CLIP_BYTES - 1)
    whole(two.one, two.clips[0])
    assert two.shared.num_bytes == 0


def test_the_last_encoding_that_needs_a_shard_reads_alone(audio, shards, stack, reads):
    two = Two(audio, shards, stack)
    whole(two.one, two.clips[0])
    two.shared.leave("two")
    whole(two.one, two.clips[1])
    assert [clip.decoded is not None for clip in reads] == [True, False]


def test_a_shard_is_open_until_nobody_needs_it(audio, shards):
    shared = SharedAudio(audio, ["one", "two", "late"])
    one, two = shared.part("one"), shared.part("two")
    for part in (one, two):
        part.begin({shards[0]: 0})
        with part.shard(shards[0], "") as shard:
            whole(part, shard.clips[0])
    assert list(shared._shards) == [shards[0]]
    assert shared.num_bytes
    shared.part("late").begin({shards[1]: 1})
    assert (shared._shards, shared.num_bytes) == ({}, 0)


def test_a_shard_that_is_missing_fails_each_encoding_by_itself(audio):
    shared = SharedAudio(audio, ["one", "two"])
    for name in ("one", "two"):
        part = shared.part(name)
        with pytest.raises(NotFoundError), part, part.shard("train_0000_000009-000000000000.tar", ""):
            pass
    assert shared._shards == {}


def test_an_encoding_that_is_ahead_waits_until_the_others_follow_or_leave(audio, shards):
    shared = SharedAudio(audio, ["one", "two", "three"])
    one = shared.part("one")
    one.begin({shards[1]: 1})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.wait_for_others)
        shared.begin("two", {shards[0]: 0})
        shared.leave("three")
        assert not waiting.done()
        shared.part("two").wait_for_others()  # the last of all never waits
        with shared.part("two").shard(shards[0], ""):
            assert not waiting.done()
        waiting.result(10)


def test_stopping_ends_all_that_wait_or_read(audio, shards, stack):
    two = Two(audio, shards, stack)
    ahead = SharedAudio(audio, ["one", "two"])
    ahead.begin("one", {shards[1]: 1})
    threading.Timer(0.01, ahead.stop).start()
    with pytest.raises(CancelledError):
        ahead.part("one").wait_for_others()
    two.shared.stop()
    with pytest.raises(CancelledError):
        whole(two.one, two.clips[0])
