"""Tars of equal names, counts and sizes: what was counted of one data set is not used for another."""

import json

import pytest

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset
from headrace.errors import FormatError, StateError
from tests.support.streaming.corpus import RATE_HZ, Clip
from tests.support.tars import write_tar

NUM_SAMPLES = 3
WAYS = {
    "windows": {"window_seconds": 100 / RATE_HZ, "batch_size": 2},
    "frame budget": {"batching": FrameBudget(frames_per_batch=3000, batch_multiple=1)},
}


def write(folder, num_frames, *, has_sizes):
    """A tar whose size does not depend on `num_frames`, since tars are padded to 10 KiB; its folder or `sizes.json`."""
    folder.mkdir(exist_ok=True)
    write_tar(folder / "a.tar", [(f"s{n}.flac", Clip(n, num_frames).flac()) for n in range(NUM_SAMPLES)])
    (folder / "sizes.json").write_text(json.dumps({"a.tar": NUM_SAMPLES}))
    return folder / "sizes.json" if has_sizes else folder


def frames(*folders, cache, **arguments):
    """Frames of all rows of an epoch."""
    streams = [Stream(remote=str(folder), local=str(cache)) for folder in folders]
    dataset = StreamingDataset(streams=streams, **arguments)
    return sum(int(batch["num_frames"].sum()) for batch in StreamingDataLoader(dataset))


@pytest.mark.parametrize("has_sizes", [False, True], ids=["indexed", "sizes.json"])
@pytest.mark.parametrize("way", WAYS)
def test_two_data_sets_of_equal_tars_are_counted_apart(tmp_path, way, has_sizes):
    longer, shorter = write(tmp_path / "a", 600, has_sizes=has_sizes), write(tmp_path / "b", 300, has_sizes=has_sizes)
    for number, order in enumerate([(longer, shorter), (shorter, longer)]):
        total = frames(*order, cache=tmp_path / f"cache {number}", **WAYS[way])
        assert total == NUM_SAMPLES * (600 + 300)


@pytest.mark.parametrize("way", WAYS)
def test_a_tar_that_was_written_again_is_counted_again(tmp_path, way):
    for num_frames in (600, 300, 500):
        folder = write(tmp_path / "a", num_frames, has_sizes=False)
        assert frames(folder, cache=tmp_path / "cache", **WAYS[way]) == NUM_SAMPLES * num_frames


@pytest.mark.parametrize("num_frames", [300, 600])
@pytest.mark.parametrize("way", WAYS)
def test_other_lengths_than_those_that_were_counted_are_an_error_that_says_what_to_remove(tmp_path, way, num_frames):
    frames(write(tmp_path / "a", 500, has_sizes=True), cache=tmp_path / "cache", **WAYS[way])
    changed = write(tmp_path / "a", num_frames, has_sizes=True)
    with pytest.raises(FormatError, match=r"a\.tar: the lengths in its index are not those .* after removing .*cache"):
        frames(changed, cache=tmp_path / "cache", **WAYS[way])


REWRITTEN = {
    "other lengths": [("s0", 500), ("s1", 600), ("s2", 600)],
    "lengths in another order": [("s0", 600), ("s1", 600), ("s2", 500)],
    "samples in another order": [("s2", 500), ("s1", 600), ("s0", 600)],
    "other keys": [("s0", 600), ("s1", 500), ("s3", 600)],
}


@pytest.mark.parametrize("rewritten", REWRITTEN)
@pytest.mark.parametrize("way", [*WAYS, "length buckets", "rows"])
def test_a_state_does_not_go_on_in_tars_that_were_written_again(tmp_path, way, rewritten):
    """Whatever the order depends on: names, counts and sizes of the tars are those of the saved state."""
    more = {"rows": {"batch_size": 1}, "length buckets": {"batch_size": 1, "batching": LengthBuckets(2)}} | WAYS

    def made(samples):
        write_tar(tmp_path / "a.tar", [(f"{key}.flac", Clip(0, frames).flac()) for key, frames in samples])
        return StreamingDataset(remote=str(tmp_path / "a.tar"), local=str(tmp_path / "cache"), **more[way])

    dataset = made([("s0", 600), ("s1", 500), ("s2", 600)])
    size, state = (tmp_path / "a.tar").stat().st_size, dataset.state_dict()
    made([("s0", 600), ("s1", 500), ("s2", 600)]).load_state_dict(state)
    changed = made(REWRITTEN[rewritten])
    assert (tmp_path / "a.tar").stat().st_size == size
    with pytest.raises(StateError, match=r"the data of stream .* differ"):
        changed.load_state_dict(state)
