"""Samples arrive equally on every world, with any number of workers, and after any stop."""

import functools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, NoShardsError, NotFoundError, StateError, StorageError
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import Fault
from tests.support.streaming.modes import MODES, open_mode

GLOBAL_BATCH = 48
WORLDS = (1, 2, 3, 8)  # the order by itself is tried on more of them in test_world.py
ALL_WORLDS = (1, 2, 3, 4, 6, 8, 12, 16)


def make(folder, *, size=1, rank=0, mode="shuffled", global_batch=GLOBAL_BATCH, **more):
    return open_mode(folder, mode, batch_size=global_batch // size, world=World(rank, size), **more)


def keys_of(dataset, num_batches=None):
    """Keys of each batch, read as batches are planned: without decoding."""
    run = dataset.epochs.begin()
    assembler = dataset.epochs.assembler()
    stop = len(run) if num_batches is None else num_batches
    found = [["" if row is None else row.primary.key for row in assembler.rows(run.plan(i))] for i in range(stop)]
    dataset.epochs.delivered(run, stop)
    return found


def global_batches(folder, size, **more):
    """Keys of each global batch of an epoch, from all ranks of a world."""
    ranks = [keys_of(make(folder, size=size, rank=rank, **more)) for rank in range(size)]
    return [[key for row in zip(*parts, strict=True) for key in row] for parts in zip(*ranks, strict=True)]


def test_every_sample_arrives_once(dataset_folder, corpus):
    found = [key for batch in global_batches(dataset_folder, 2) for key in batch if key]
    assert sorted(found) == sorted(clip.key for clip in corpus)


@pytest.mark.medium
@pytest.mark.parametrize("mode", MODES)
def test_global_batches_survive_a_change_of_world_size(dataset_folder, mode):
    alone = global_batches(dataset_folder, 1, mode=mode)
    for size in WORLDS[1:]:
        assert global_batches(dataset_folder, size, mode=mode) == alone


def advance(datasets, count):
    """Keys of the next `count` global batches, epoch after epoch, from all ranks of a world."""
    found = []
    while len(found) < count:
        left = min(count - len(found), datasets[0].num_batches)
        ranks = [keys_of(dataset, left) for dataset in datasets]
        found += [[key for row in zip(*parts, strict=True) for key in row] for parts in zip(*ranks, strict=True)]
    return found


MOST_PARTS, MOST_BATCHES = 4, 7


def chains(worlds):
    """World sizes, and how many batches are read on each."""
    return st.lists(st.tuples(st.sampled_from(worlds), st.integers(0, MOST_BATCHES)), min_size=2, max_size=MOST_PARTS)


@pytest.fixture(scope="module")
def whole_run(dataset_folder):
    """The first global batches of one run, as many as the longest chain has, by mode."""
    return functools.cache(lambda mode: advance([make(dataset_folder, mode=mode)], MOST_PARTS * MOST_BATCHES))


@pytest.mark.medium
@pytest.mark.parametrize("mode", MODES)
def test_a_chain_of_stops_and_worlds_is_one_uninterrupted_run_across_epochs(dataset_folder, whole_run, mode):
    check_chain(dataset_folder, mode, [(2, 1), (3, 4), (1, 0), (4, 2)], whole_run(mode))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=8)
@given(chain=chains(ALL_WORLDS))
def test_any_chain_of_many_worlds_is_one_uninterrupted_run_across_epochs(dataset_folder, mode, whole_run, chain):
    check_chain(dataset_folder, mode, chain, whole_run(mode))


def check_chain(dataset_folder, mode, chain, whole_run):
    """Each part runs for some batches on some world, and hands its state on as JSON."""
    seen, state = [], None
    for size, count in chain:
        datasets = [make(dataset_folder, size=size, rank=rank, mode=mode) for rank in range(size)]
        for dataset in datasets:
            if state is not None:
                dataset.load_state_dict(json.loads(state))
        seen += advance(datasets, count)
        (state,) = {json.dumps(dataset.state_dict()) for dataset in datasets}
    assert seen == whole_run[: sum(count for _, count in chain)]


def test_what_only_concerns_speed_changes_nothing(dataset_folder, tmp_path):
    plain = keys_of(make(dataset_folder))
    other = make(
        dataset_folder, local=str(tmp_path), download_retry=7, download_timeout=3, validate_hash="sha256",
        keep_zip=True, predownload=1, cache_limit="50gb", partition_algo="orig",
    )  # fmt: skip
    assert keys_of(other) == plain


@pytest.mark.parametrize("num_retries", [0, 1])
def test_a_stream_is_opened_with_its_own_number_of_retries(server, num_retries):
    server.fault = lambda request: Fault.ERROR_500
    with pytest.raises(StorageError, match=f"failed {num_retries + 1} times"):
        StreamingDataset(streams=[Stream(remote=f"{server.uri}/audio", download_retry=num_retries)], download_retry=5)
    assert len(server.requests) == num_retries + 1


def test_epochs_differ_and_are_counted(dataset_folder):
    dataset = make(dataset_folder)
    assert dataset.next_epoch == 0
    first, second = keys_of(dataset), keys_of(dataset)
    assert first != second
    assert dataset.next_epoch == 2


def test_a_state_is_readable_and_has_the_reference_s_fields(dataset_folder):
    dataset = make(dataset_folder)
    keys_of(dataset, 1)
    state = dataset.state_dict()
    assert json.loads(json.dumps(state)) == state
    assert (state["epoch"], state["sample_in_epoch"], state["shuffle_seed"]) == (0, GLOBAL_BATCH, 9176)
    assert state["num_canonical_nodes"] == 64


def test_state_dict_counts_samples_as_the_reference_does(dataset_folder):
    dataset = make(dataset_folder, global_batch=8)
    keys_of(dataset, 1)
    assert dataset.state_dict(16, True)["sample_in_epoch"] == 16
    resumed = make(dataset_folder, global_batch=8)
    resumed.load_state_dict(dataset.state_dict(16, from_beginning=True))
    keys_of(resumed, 1)
    assert resumed.state_dict(8, from_beginning=False)["sample_in_epoch"] == 24


@pytest.mark.parametrize(("last_batch", "last"), [("pad", 52), ("drop", 45)])
def test_where_no_batch_is_left_the_state_is_the_beginning_of_the_next_epoch(dataset_folder, last_batch, last):
    dataset = make(dataset_folder, global_batch=8, last_batch=last_batch)
    first = dataset.state_dict()
    keys_of(dataset, 1)
    for row in range(60):
        state = dataset.state_dict(row)
        assert (state["epoch"], state["sample_in_epoch"]) == ((0, row) if row <= last else (1, 0))
    resumed = make(dataset_folder, global_batch=8, last_batch=last_batch)
    resumed.load_state_dict(first | {"sample_in_epoch": last + 1})  # as states were before
    assert resumed.next_epoch == 1
    second = keys_of(resumed)
    resumed.load_state_dict(state)
    assert keys_of(resumed) == second
    assert len(second) == (7 if last_batch == "pad" else 6)


def test_a_larger_batch_that_leaves_none_of_an_epoch_goes_on_with_the_next(dataset_folder):
    dataset = make(dataset_folder, global_batch=8, last_batch="drop")
    keys_of(dataset, 5)
    resumed = make(dataset_folder, global_batch=16, last_batch="drop")
    resumed.load_state_dict(dataset.state_dict())
    assert resumed.next_epoch == 1
    assert len(keys_of(resumed)) == 3


def test_the_global_batch_may_change_where_the_order_does_not_depend_on_it(dataset_folder):
    dataset = make(dataset_folder, global_batch=12)
    flat = [key for batch in keys_of(make(dataset_folder, global_batch=12)) for key in batch if key]
    keys_of(dataset, 2)
    resumed = make(dataset_folder, global_batch=16)
    resumed.load_state_dict(dataset.state_dict())
    assert [key for batch in keys_of(resumed) for key in batch if key] == flat[24:]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"shuffle_seed": 1}, "shuffle_seed"),
        ({"mode": "plain"}, "shuffle"),
        ({"shuffle_block_size": 7}, "shuffle_block_size"),
        ({"num_canonical_nodes": 2}, "num_canonical_nodes"),
        ({"mode": "mixed"}, "streams"),
    ],
)
def test_a_state_of_another_order_is_rejected_by_name(dataset_folder, changed, field):
    state = make(dataset_folder).state_dict()
    with pytest.raises(StateError, match=field):
        make(dataset_folder, **changed).load_state_dict(state)


def test_the_mixture_may_change_on_request(dataset_folder):
    audio = f"{dataset_folder}/audio"
    old = [Stream(audio, split="train", name="a"), Stream(audio, split="test", name="b")]
    new = [Stream(audio, split="train", name="a"), Stream(audio, split="test", name="b", repeat=3)]
    dataset = StreamingDataset(streams=old, batch_size=4, shuffle=True)
    before = keys_of(dataset, 3)
    state = dataset.state_dict()
    with pytest.raises(StateError, match="change_streams"):
        StreamingDataset(streams=new, batch_size=4, shuffle=True).load_state_dict(state)
    resumed = StreamingDataset(streams=new, batch_size=4, shuffle=True, change_streams=True)
    resumed.load_state_dict(state)
    train = {clip.key for clip in clips(53)}
    given = [key for batch in before + keys_of(resumed) for key in batch]
    assert sorted(key for key in given if key in train) == sorted(train)


def test_a_state_selects_its_snapshot_and_a_lost_one_is_named(tmp_path):
    write_dataset(tmp_path, {"train": clips(20)})
    dataset = StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4, shuffle=True)
    expected = keys_of(StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4, shuffle=True))
    keys_of(dataset, 2)
    state = dataset.state_dict()
    write_dataset(tmp_path, {"train": clips(30)})
    resumed = StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4, shuffle=True)
    assert resumed.size == 30
    resumed.load_state_dict(state)
    assert keys_of(resumed) == expected[2:]
    pinned = StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4, snapshot=1)
    assert pinned.size == 20
    (tmp_path / "audio/snapshots/00000001.json").unlink()
    with pytest.raises(StateError, match="snapshot 1"):
        StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4, shuffle=True).load_state_dict(state)
    with pytest.raises(NotFoundError, match="snapshot 1"):
        StreamingDataset(remote=f"{tmp_path}/audio", snapshot=1)


def test_a_state_that_is_rejected_leaves_the_dataset_on_its_own_snapshot(tmp_path):
    write_dataset(tmp_path, {"train": clips(20)})
    state = StreamingDataset(remote=f"{tmp_path}/audio").state_dict()
    write_dataset(tmp_path, {"train": clips(30)})
    dataset = StreamingDataset(remote=f"{tmp_path}/audio")
    with pytest.raises(StateError, match="shuffle_seed differs"):
        dataset.load_state_dict(state | {"shuffle_seed": 1})
    assert dataset.size == 30
    assert dataset.state_dict()["streams"][0]["snapshot"] == 2


@pytest.mark.medium
def test_a_copy_elsewhere_gives_the_same_order_and_takes_the_same_state(tmp_path):
    for name in ("one", "two"):
        write_dataset(tmp_path / name, {"train": clips(20)})
    one = StreamingDataset(remote=f"{tmp_path}/one/audio", batch_size=4, shuffle=True)
    two = StreamingDataset(remote=f"{tmp_path}/two/audio", batch_size=4, shuffle=True)
    two.load_state_dict(one.state_dict())
    assert keys_of(one) == keys_of(two)


def test_samples_come_as_documented(dataset_folder, corpus):
    dataset = make(dataset_folder, mode="plain", latents=[f"{dataset_folder}/latents/crepe"])
    sample = next(iter(dataset))
    clip = next(clip for clip in corpus if clip.key == sample["__key__"])
    assert sample["audio"].dtype == torch.float32
    assert np.array_equal(sample["audio"].numpy(), clip.audio())
    assert sample["sample_rate"] == 8000
    assert np.array_equal(sample["encoder_hidden"].numpy(), clip.hidden())
    assert sample["encoder_length"] == len(clip.hidden())
    assert sample["metadata"]["title"] == f"Clip {clip.number}"


def test_get_item_finds_every_sample_by_number(dataset_folder, corpus):
    dataset = make(dataset_folder)
    assert dataset.size == 53
    assert [dataset.get_item(number)["__key__"] for number in (0, 17, 52)] == [corpus[n].key for n in (0, 17, 52)]
    assert dataset[-1]["__key__"] == corpus[52].key
    with pytest.raises(IndexError, match="53"):
        dataset.get_item(53)


def test_resample_streams_lists_what_an_epoch_takes(dataset_folder):
    dataset = make(dataset_folder, mode="mixed")
    counts, samples = dataset.resample_streams(0)
    assert counts.sum() == len(samples) == 2 * 53 + int(5.5 * 7)
    assert set(np.bincount(samples)) <= {2, 5, 6}


def test_crops_depend_on_seed_and_position_only(dataset_folder, corpus):
    def cropped(size):
        datasets = [make(dataset_folder, size=size, rank=rank, crop_frames=100) for rank in range(size)]
        return {s["__key__"]: s["audio"] for d in datasets for s in d if s["__key__"]}

    one, three = cropped(1), cropped(3)
    assert all(torch.equal(one[key], three[key]) for key in one)
    clip = corpus[5]
    assert one[clip.key].shape == (1, 100)
    windows = np.lib.stride_tricks.sliding_window_view(clip.audio()[0], 100)
    assert (windows == one[clip.key][0].numpy()).all(axis=1).any()


def test_crops_are_those_of_all_versions(dataset_folder, corpus):
    """A resumed run must cut as the stopped one would have, whatever was installed in between."""
    found = []
    for sample, clip in zip(make(dataset_folder, mode="plain", crop_frames=200), corpus[:6], strict=False):
        windows = np.lib.stride_tricks.sliding_window_view(clip.audio()[0], 200)
        found.append(int(np.flatnonzero((windows == sample["audio"][0].numpy()).all(axis=1))[0]))
    assert found == [573, 398, 287, 628, 169, 447]


def test_resampling_and_transforms_happen_per_sample(dataset_folder, corpus):
    dataset = make(
        dataset_folder, mode="plain", sample_rate=4000, transform=lambda s: s | {"mean": float(s["audio"].mean())}
    )
    batch = next(iter(StreamingDataLoader(dataset)))
    assert set(batch["sample_rate"].tolist()) == {4000}
    assert abs(int(batch["num_frames"][0]) - corpus[0].num_frames // 2) <= 1
    assert len(batch["mean"]) == GLOBAL_BATCH


def test_numpy_output_holds_no_tensors(dataset_folder):
    batch = next(iter(StreamingDataLoader(make(dataset_folder, output="numpy"))))
    assert isinstance(batch["audio"], np.ndarray)
    assert not any(isinstance(value, torch.Tensor) for value in batch.values())


def test_errors_say_what_to_do(dataset_folder, tmp_path):
    with pytest.raises(ConfigError, match="it has test, train"):
        StreamingDataset(remote=f"{dataset_folder}/audio", split="nowhere")
    with pytest.raises(ConfigError, match="remote"):
        StreamingDataset()
    with pytest.raises(NoShardsError, match="no snapshot and no shards"):
        StreamingDataset(remote=str(tmp_path))
    with pytest.raises(StateError, match="a dict, not NoneType"):
        make(dataset_folder).load_state_dict(None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"predownload": -1}, "predownload is -1"),
        ({"sample_rate": 0}, "sample_rate is 0"),
        ({"latents": "latents/crepe"}, r"expected a list of names, such as \['latents/crepe'\]"),
        ({"batching": "length"}, "expected one of fixed, length_buckets"),
        ({"last_batch": "keep"}, "expected one of pad, drop"),
        ({"output": "jax"}, "expected one of torch, numpy"),
        ({"streams": []}, "streams and remote=.* are both given: pass one of them"),
    ],
    ids=str,
)
def test_invalid_settings_are_rejected_by_name(dataset_folder, wrong, message):
    with pytest.raises(ConfigError, match=message):
        StreamingDataset(remote=f"{dataset_folder}/audio", **wrong)


@pytest.mark.parametrize("wrong", [{"num_threads": 0}, {"num_workers": -1}, {"prefetch_factor": 0}], ids=str)
def test_a_loader_refuses_numbers_that_would_read_nothing(dataset_folder, wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"{name} is"):
        StreamingDataLoader(make(dataset_folder), **wrong)


def test_mixed_channels_name_the_setting_that_settles_them(tmp_path):
    mixed = clips(4) + clips(4, first=10, num_channels=2)
    write_dataset(tmp_path, {"train": mixed}, per_shard=8)
    loader = StreamingDataLoader(StreamingDataset(remote=f"{tmp_path}/audio", batch_size=8))
    with pytest.raises(ConfigError, match=r"audio\.num_channels"):
        next(iter(loader))
    samples = list(StreamingDataset(remote=f"{tmp_path}/audio", batch_size=8))
    assert {sample["audio"].shape[0] for sample in samples} == {1, 2}
