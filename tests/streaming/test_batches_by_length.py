"""Length buckets and frame budgets as a training loop meets them: through the dataset and the loader."""

import json
from dataclasses import replace

import numpy as np
import pytest

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, StateError
from headrace.streaming.run.planner import Planner
from headrace.streaming.shards.access import ShardAccess
from tests.streaming.shards.test_foreign import write_tar
from tests.support.streaming.corpus import RATE_HZ, clips, write_dataset

pytestmark = pytest.mark.medium

CLIPS = clips(420, frames=(100, 3000))
"""Clips with the spread of 1 to 30 s, at a hundred frames a second."""
LONGEST = max(clip.num_frames for clip in CLIPS)
FRAMES = 20 * LONGEST
BUDGET = FrameBudget(FRAMES, batch_multiple=4, window_samples=202)
KINDS = [pytest.param(BUDGET, id="budget"), pytest.param(LengthBuckets(48), id="buckets")]


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """A data set whose lengths are spread like speech's."""
    folder = tmp_path_factory.mktemp("spread")
    write_dataset(folder, {"train": CLIPS}, per_shard=30)
    return folder


def make(folder, kind=BUDGET, **more):
    settings = {"batch_size": 8, "shuffle": True, "batching": kind} | more
    return StreamingDataset(remote=f"{folder}/audio", **settings)


def ranks(folder, size, **more):
    return [make(folder, batch_size=8 // size, world=World(rank, size), **more) for rank in range(size)]


def global_keys(loaders):
    """Keys of each global batch, from the loaders of all ranks."""
    parts = [[batch["keys"] for batch in loader] for loader in loaders]
    return [[key for row in zip(*batch, strict=True) for key in row] for batch in zip(*parts, strict=True)]


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        pytest.param(FrameBudget(8 * LONGEST, batch_multiple=2), 0.055, id="budget"),  # few samples of each length
        pytest.param(LengthBuckets(48), 0.05, id="buckets"),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_about_five_percent_of_what_arrives_is_padding(spread, kind, limit, size):
    held = padded = 0
    for dataset in ranks(spread, size, kind=kind):
        for batch in StreamingDataLoader(dataset):
            held += int(batch["num_frames"].sum())
            padded += batch["audio"].shape[0] * batch["audio"].shape[2]
    assert held == sum(clip.num_frames for clip in CLIPS)
    assert 1 - held / padded < limit


def test_no_batch_is_over_its_budget_and_few_are_far_below(spread):
    batches = list(StreamingDataLoader(make(spread)))
    frames = [batch["audio"].shape[0] * batch["audio"].shape[2] for batch in batches]
    assert max(frames) <= FRAMES
    assert np.mean(np.array(frames) > 0.7 * FRAMES) > 0.8
    assert all(len(batch["keys"]) % BUDGET.batch_multiple == 0 for batch in batches)
    assert len({len(batch["keys"]) for batch in batches}) > 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_sample_arrives_once_in_batches_of_a_known_number(spread, kind, num_workers):
    dataset = make(spread, kind)
    loader = StreamingDataLoader(dataset, num_workers=num_workers)
    expected, rows = len(loader), len(dataset)
    keys = [batch["keys"] for batch in loader]
    assert len(keys) == expected == dataset.num_batches
    assert sum(map(len, keys)) == rows
    assert sorted(key for batch in keys for key in batch if key) == [clip.key for clip in CLIPS]


def test_only_the_last_batch_of_a_budget_is_padded_or_dropped(spread):
    """418 samples are no multiple of 4; nor are windows of 202, but these are rounded down to be one."""
    cut = {"epoch_size": 418}
    padded, dropped = (
        [batch["is_padding"].sum().item() for batch in StreamingDataLoader(make(spread, last_batch=last, **cut))]
        for last in ("pad", "drop")
    )
    assert sum(padded) == 2
    assert sum(count > 0 for count in padded) == 1
    assert not any(dropped)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_global_batches_come_out_on_every_world(spread, kind):
    alone = global_keys([StreamingDataLoader(make(spread, kind))])
    for size in (2, 4):
        assert global_keys(map(StreamingDataLoader, ranks(spread, size, kind=kind))) == alone


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("first", "second"), [(0, 2), (2, 0)])
def test_a_run_goes_on_after_any_batch_with_other_workers_and_ranks(spread, kind, first, second):
    whole = StreamingDataLoader(make(spread, kind))
    expected = global_keys([whole]) + global_keys([whole])
    stop = len(whole) // 3 + second
    loader = StreamingDataLoader(make(spread, kind), num_workers=first)
    batches = iter(loader)
    seen = [next(batches)["keys"] for _ in range(stop)]
    state = json.loads(json.dumps(loader.state_dict()))
    batches.close()
    resumed = [StreamingDataLoader(dataset, num_workers=second) for dataset in ranks(spread, 2, kind=kind)]
    for one in resumed:
        one.load_state_dict(state)
        assert len(one) == len(whole) - stop
    assert seen + global_keys(resumed) + global_keys(resumed) == expected


def test_a_world_that_the_batch_multiple_does_not_fit_is_rejected(spread):
    with pytest.raises(ConfigError, match=r"batch_multiple of 4 samples does not divide by 8 ranks: use .* of 8,"):
        make(spread, world=World(0, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_run_is_made_once_until_it_begins_or_a_state_is_loaded(spread, kind, monkeypatch):
    made = []
    run = Planner.run
    monkeypatch.setattr(Planner, "run", lambda self, order: made.append(order.epoch) or run(self, order))
    dataset = make(spread, kind)
    loader = StreamingDataLoader(dataset, whole_epoch_len=True)

    def counts():
        return len(loader), dataset.num_batches, len(dataset), dataset.num_samples

    whole = counts()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    batches.close()
    assert made == [0]
    assert counts() == whole
    assert made == [0, 1]
    loader.load_state_dict(state)
    for _ in range(3):
        assert counts()[0] == whole[0]
        assert dataset.num_batches == whole[0] - 1
    assert made == [0, 1, 0, 0]  # the rest of epoch 0, and once all of it for `whole_epoch_len`
    assert sum(1 for _ in loader) == whole[0] - 1
    assert made == [0, 1, 0, 0]


# Lengths are those of what arrives


def frames_of(batch):
    return batch["audio"].shape[0] * batch["audio"].shape[2]


@pytest.mark.parametrize(
    "change",
    [{"crop_frames": 500}, {"crop_seconds": 500 / RATE_HZ}, {"sample_rate": RATE_HZ // 2}, {"sample_rate": 11025}],
    ids=str,
)
def test_a_budget_counts_the_frames_that_arrive(spread, change):
    budget = FrameBudget(2 * FRAMES, batch_multiple=4, window_samples=202)
    batches = list(StreamingDataLoader(make(spread, budget, **change)))
    assert max(map(frames_of, batches)) <= 2 * FRAMES
    assert np.mean([frames_of(batch) > 1.4 * FRAMES for batch in batches]) > 0.6


@pytest.mark.parametrize("change", [{"crop_frames": 500}, {"crop_seconds": 0.05}, {"sample_rate": 4000}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_rejected_where_samples_of_another_length_would_make_other_batches(spread, kind, change):
    state = make(spread, kind).state_dict()
    (name,) = change
    with pytest.raises(StateError, match=f"{name} differs"):
        make(spread, kind, **change).load_state_dict(state)


def test_without_buckets_samples_may_be_cut_otherwise_on_resume(spread):
    state = make(spread, "fixed").state_dict()
    make(spread, "fixed", crop_frames=500).load_state_dict(state)


def test_streams_of_other_rates_are_sorted_by_what_they_become(tmp_path, spread):
    """Half of the samples are stored at twice the rate: as long in frames, half as long once resampled."""
    fast = [replace(clip, number=clip.number + 1000, rate_hz=2 * RATE_HZ) for clip in CLIPS[:96]]
    write_dataset(tmp_path, {"train": fast}, per_shard=30)
    streams = [Stream(f"{spread}/audio", choose=96), Stream(f"{tmp_path}/audio")]
    dataset = StreamingDataset(streams=streams, batch_size=8, shuffle=True, batching="length_buckets", sample_rate=4000)
    shares = [1 - batch["num_frames"].sum() / frames_of(batch) for batch in StreamingDataLoader(dataset)]
    assert np.mean(shares) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_unknown_length_is_named_with_a_remedy(tmp_path, kind):
    write_tar(tmp_path / "a.tar", clips(4))
    content = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(content.replace(b"fLaC", b"none", 1))
    with pytest.raises(
        ConfigError, match=r"/a\.tar: the index does not know the length of sample 'clip00000'.*'fixed'"
    ):
        list(
            StreamingDataLoader(
                StreamingDataset(remote=str(tmp_path), local=str(tmp_path / "cache"), batch_size=4, batching=kind)
            )
        )


# Shards of one sample


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_of_shards_with_one_sample_need_no_index(tmp_path, kind, monkeypatch):
    """The table of the snapshot has them, so a batch opens only the shards that it reads."""
    write_dataset(tmp_path, {"train": CLIPS[:120]}, per_shard=1)
    together = tmp_path / "together"
    write_dataset(together, {"train": CLIPS[:120]}, per_shard=120)
    opened = []
    index = ShardAccess.index
    monkeypatch.setattr(ShardAccess, "index", lambda self, shard: opened.append(shard) or index(self, shard))
    run = make(tmp_path, kind).epochs.next_run()
    rows = run.plan(0).rows
    assert opened == []
    lengths = make(tmp_path, kind).reading.readers[0].lengths(rows.sample_ids)
    whole = make(together, kind).reading.readers[0].lengths(rows.sample_ids)
    assert lengths.tolist() == whole.tolist()


def test_lengths_of_one_sample_of_latents_are_those_of_the_index(tmp_path):
    write_dataset(tmp_path, {"train": clips(9)}, per_shard=1, latents=True)
    for folder in ("audio", "latents/crepe"):
        reader = StreamingDataset(remote=f"{tmp_path}/{folder}", batch_size=3).reading.readers[0]
        expected = [int(reader.primary.index(shard).lengths[0]) for shard in range(9)]
        assert reader.lengths(np.arange(9)).tolist() == expected


def test_crops_in_seconds_of_shards_with_one_sample_need_the_rate(tmp_path):
    write_dataset(tmp_path, {"train": CLIPS[:40]}, per_shard=1)
    dataset = make(tmp_path, "length_buckets", crop_seconds=500 / RATE_HZ)
    assert max(int(batch["num_frames"].max()) for batch in StreamingDataLoader(dataset)) == 500
