"""Views in the loader: an epoch takes each sample as often as the view says, on every world, also after a resume."""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, NotFoundError, StateError
from headrace.streaming.order.spec import FrameBudget, LengthBuckets
from headrace.streaming.stream import chosen as named_streams
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset, write_latents
from tests.support.view_fixtures import write_view
from tests.support.views import chosen, number

TRAIN = clips(53)
TEST = clips(7, first=200)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    write_dataset(folder, {"train": TRAIN, "test": TEST}, latents=True)
    write_view(folder, "some", chosen)
    return folder


def dataset(output, **options):
    defaults = {"remote": str(output / "audio"), "split": "train", "view": "some", "batch_size": 4, "output": "numpy"}
    return StreamingDataset(**(defaults | options))


def keys_of(batches):
    return [[key for key in batch["keys"] if key] for batch in batches]


def flat(batches):
    return [key for keys in batches for key in keys]


EXPECTED = Counter({clip.key: chosen(clip.key) for clip in TRAIN if chosen(clip.key)})


@pytest.mark.parametrize("batching", ["fixed", "length_buckets", FrameBudget(4000, 4, 64)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_takes_each_sample_as_often_as_the_view_says(output, batching, shuffle):
    made = dataset(output, batching=batching, shuffle=shuffle)
    assert made.size == made.num_samples == EXPECTED.total()
    for _ in range(2):
        assert Counter(flat(keys_of(StreamingDataLoader(made)))) == EXPECTED


def test_without_shuffling_copies_follow_each_other_in_the_order_of_the_shards(output):
    found = flat(keys_of(StreamingDataLoader(dataset(output))))
    assert found == [clip.key for clip in TRAIN for _ in range(chosen(clip.key))]


def test_the_audio_of_each_sample_is_its_own(output):
    by_key = {clip.key: clip for clip in TRAIN}
    for batch in StreamingDataLoader(dataset(output, shuffle=True)):
        for row, key in enumerate(batch["keys"]):
            if key:
                frames = int(batch["num_frames"][row])
                assert np.array_equal(batch["audio"][row, :, :frames], by_key[key].audio())


@pytest.mark.parametrize("batching", ["fixed", LengthBuckets(3), FrameBudget(8000, 8, 64)])
def test_global_batches_of_a_view_are_the_same_on_every_world(output, batching):
    def on(world_size):
        made = [
            dataset(output, world=World(rank, world_size), batch_size=8 // world_size, batching=batching, shuffle=True)
            for rank in range(world_size)
        ]
        parts = [keys_of(StreamingDataLoader(one)) for one in made]
        return [sorted(key for part in batch for key in part) for batch in zip(*parts, strict=True)]

    assert on(1) == on(2) == on(8)


def test_a_resumed_run_on_another_world_continues_exactly(output):
    whole = keys_of(StreamingDataLoader(dataset(output, batch_size=4, shuffle=True)))
    loader = StreamingDataLoader(dataset(output, batch_size=4, shuffle=True))
    batches = iter(loader)
    begun = keys_of([next(batches) for _ in range(3)])
    state = loader.state_dict()
    parts = []
    for rank in range(2):
        rest = StreamingDataLoader(dataset(output, batch_size=2, shuffle=True, world=World(rank, 2)))
        rest.load_state_dict(state)
        parts.append(keys_of(rest))
    ended = [sorted(first + second) for first, second in zip(*parts, strict=True)]
    assert begun == whole[:3]
    assert ended == [sorted(keys) for keys in whole[3:]]


def test_copies_have_their_own_crops(output):
    batches = StreamingDataLoader(dataset(output, crop_frames=100, shuffle=True))
    offsets = {}
    for batch in batches:
        for key, offset in zip(batch["keys"], batch["frame_offset"].tolist(), strict=True):
            offsets.setdefault(key, []).append(offset)
    threes = [found for key, found in offsets.items() if key and chosen(key) == 3]
    assert all(len(found) == 3 for found in threes)
    assert sum(len(set(found)) > 1 for found in threes) > len(threes) // 2


def test_latents_are_joined_to_the_samples_of_a_view(output):
    by_key = {clip.key: clip for clip in TRAIN}
    made = dataset(output, latents=[str(output / "latents/crepe")], shuffle=True)
    found = Counter()
    for batch in StreamingDataLoader(made):
        for row, key in enumerate(batch["keys"]):
            if key:
                found[key] += 1
                hidden = batch["encoder_hidden"][row, : int(batch["encoder_length"][row])]
                assert np.array_equal(hidden, by_key[key].hidden())
    assert found == EXPECTED


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_latents_alone_can_be_read_by_a_view_of_their_audio(output, num_workers):
    made = dataset(output, remote=str(output / "latents/crepe"), shuffle=True)
    loader = StreamingDataLoader(made, num_workers=num_workers)
    assert Counter(flat(keys_of(loader))) == EXPECTED


def test_a_split_and_the_whole_snapshot_are_filtered_alike(output):
    everything = dataset(output, split=None)
    test_only = dataset(output, split="test")
    assert test_only.size == sum(chosen(clip.key) for clip in TEST)
    assert everything.size == test_only.size + EXPECTED.total()


def test_items_and_sizes_count_the_samples_of_the_view(output):
    made = dataset(output)
    wanted = [clip.key for clip in TRAIN for _ in range(chosen(clip.key))]
    assert [made.get_item(number)["__key__"] for number in (0, 1, -1)] == [wanted[0], wanted[1], wanted[-1]]
    with pytest.raises(IndexError):
        made.get_item(len(wanted))
    counts, samples = made.resample_streams(0)
    assert counts.sum() == len(samples) == len(wanted)
    assert len(counts) == 7  # of 11 shards, 4 hold no chosen sample


def test_a_view_mixes_with_a_stream_without_one(output):
    streams = [
        Stream(remote=str(output / "audio"), split="train", view="some", proportion=1),
        Stream(remote=str(output / "audio"), split="test", proportion=1),
    ]
    made = StreamingDataset(streams=streams, batch_size=4, epoch_size=40, output="numpy", shuffle=True)
    found = flat(keys_of(StreamingDataLoader(made)))
    assert sum(number(key) >= 200 for key in found) == 20
    assert {key for key in found if number(key) < 200} <= set(EXPECTED)


def test_streams_of_one_data_set_are_named_by_their_views(output):
    remote = str(output / "audio")
    streams = [
        Stream(remote),
        Stream(remote, view="some"),
        Stream(remote, view=str(output / "views/some"), split="test"),
        Stream(remote, where="number > 3"),
    ]
    _, names = named_streams(streams, None)
    marks = ["", " view some", "#test view some", " where number > 3"]
    assert names == [remote + mark for mark in marks]
    assert named_streams(streams[1:3], None)[1] == [f"{output.name}/audio{mark}" for mark in ("", "#test")]
    made = StreamingDataset(streams=streams[:3], batch_size=4, output="numpy")
    state = made.state_dict()
    assert [one["name"] for one in state["streams"]] == names[:3]
    again = StreamingDataset(streams=streams[:3], batch_size=4, output="numpy")
    again.load_state_dict(state)
    assert keys_of(StreamingDataLoader(again)) == keys_of(StreamingDataLoader(made))


def test_the_view_of_the_dataset_is_that_of_streams_without_their_own(output):
    streams = [Stream(remote=str(output), split=split) for split in ("train", "test")]
    made = StreamingDataset(streams=streams, view="some", batch_size=4)
    assert made.size == dataset(output, split=None).size


def test_a_view_may_be_named_by_its_folder_or_through_the_output(output, tmp_path):
    assert dataset(output, view=str(output / "views/some")).size == EXPECTED.total()
    assert dataset(output, remote=str(output)).size == EXPECTED.total()


def test_a_missing_view_is_an_error_that_lists_those_that_are_there(output):
    with pytest.raises(NotFoundError, match=r"views/clean: no view there; there are some\. Build the view"):
        dataset(output, view="clean")


def test_tars_without_snapshots_have_no_views(output):
    with pytest.raises(ConfigError, match="view='some' needs a folder with snapshots"):
        dataset(output, remote=str(output / "audio/train_*.tar"))


@pytest.mark.medium
def test_audio_and_view_are_read_at_the_newest_snapshot_that_both_have(tmp_path):
    old = write_dataset(tmp_path, {"train": clips(9)}, latents=True)
    write_view(tmp_path, "some", lambda key: 1)
    new = write_dataset(tmp_path, {"train": clips(19)})
    made = dataset(tmp_path)
    assert made.state_dict()["streams"][0]["snapshot"] == old.number
    assert made.size == 9
    write_view(tmp_path, "some", lambda key: 1)
    assert dataset(tmp_path).size == 19
    latents = {"latents": [str(tmp_path / "latents/crepe")]}
    assert dataset(tmp_path, **latents).size == 9
    write_latents(tmp_path, {"train": clips(19)}, new)
    assert dataset(tmp_path, **latents).size == 19
    other = tmp_path / "other"
    write_dataset(other, {"train": clips(3)})
    write_view(other, "some", lambda key: 1)
    with pytest.raises(NotFoundError, match="other/views/some' belongs to other audio"):
        dataset(tmp_path, view=str(other / "views/some"))


@pytest.mark.medium
def test_a_state_opens_the_snapshot_of_the_view_that_it_was_saved_on(tmp_path):
    write_dataset(tmp_path, {"train": clips(30)})
    write_view(tmp_path, "some", lambda key: number(key) % 2, where="odd")
    loader = StreamingDataLoader(dataset(tmp_path, shuffle=True))
    whole = keys_of(loader)
    loader = StreamingDataLoader(dataset(tmp_path, shuffle=True))
    next(iter(loader))
    state = loader.state_dict()
    assert state["streams"][0]["view"] == {"definition": "where odd", "snapshot": 1}
    write_view(tmp_path, "some", lambda key: int(number(key) % 3 == 0), where="odd")  # the columns have changed
    assert dataset(tmp_path).size == 10
    resumed = StreamingDataLoader(dataset(tmp_path, shuffle=True))
    resumed.load_state_dict(state)
    assert keys_of(resumed) == whole[1:]


@pytest.mark.medium
def test_a_filter_that_changed_is_refused_on_resume(tmp_path):
    write_dataset(tmp_path, {"train": clips(30)})
    write_view(tmp_path, "some", lambda key: number(key) % 2, where="odd")
    state = dataset(tmp_path).state_dict()
    write_view(tmp_path, "some", lambda key: int(number(key) % 3 == 0), where="every third")
    with pytest.raises(StateError, match=r"the view has changed: define it again as: where odd"):
        dataset(tmp_path).load_state_dict(state)
    with pytest.raises(StateError, match=r"pass its view \(where odd\) at snapshot 1"):
        dataset(tmp_path, view=None).load_state_dict(state)
    plain = dataset(tmp_path, view=None).state_dict()
    with pytest.raises(StateError, match="pass no view= or where="):
        dataset(tmp_path).load_state_dict(plain)


def test_a_simulation_needs_only_shards_with_chosen_samples(output):
    simulation = dataset(output, shuffle=True).simulate()
    assert simulation.num_shards == 7
    assert simulation.num_samples == EXPECTED.total()
    assert simulation.hosts[0].num_shards == 7


def test_columns_are_joined_to_the_samples_of_a_view(output):
    score = {"score": ("float", lambda key: number(key) / 2)}
    write_columns(output, "quality", score)
    made = dataset(output, columns=["quality"], tensors=["score"], shuffle=True)
    found = Counter()
    for batch in StreamingDataLoader(made):
        for row, key in enumerate(batch["keys"]):
            if key:
                found[key] += 1
                assert float(batch["score"][row]) == number(key) / 2
    assert found == EXPECTED


@pytest.mark.parametrize(
    ("world_size", "is_mixed"), [(2, False), (2, True), (3, False), (4, True), (6, True), (7, False), (16, False)]
)
def test_planned_samples_are_the_same_on_1_to_16_ranks(output, world_size, is_mixed):
    """Rows of shards, not numbers of samples: copies and left-out samples are counted in."""
    batching = ("fixed", LengthBuckets(2), FrameBudget(60_000, 4 * world_size, 64))[(world_size + is_mixed) % 3]
    num_streams = 1 + is_mixed
    alone = planned_batches(output, num_streams, batching, 4 * world_size, 1)
    assert planned_batches(output, num_streams, batching, 4 * world_size, world_size) == alone
    of_view = Counter(place for batch in alone for place in batch if place is not None and place[0] == 0)
    assert sorted(of_view.values()) == sorted(EXPECTED.values())


def planned_batches(output, num_streams, batching, global_batch_size, world_size):
    """The global batches of an epoch, put together from what each rank plans."""
    audio = str(output / "audio")
    streams = [Stream(remote=audio, split="train", view="some"), Stream(remote=audio, split="test", repeat=1.5)]
    places = []
    for rank in range(world_size):
        made = StreamingDataset(
            streams=streams[:num_streams],
            batch_size=global_batch_size // world_size,
            world=World(rank, world_size),
            batching=batching,
            shuffle=True,
        )
        run = made.epochs.begin()
        places.append([_places(made, run.plan(index).rows) for index in range(len(run))])
    batches = zip(*places, strict=True)
    return [[row for rows in zip(*parts, strict=True) for row in rows] for parts in batches]


def _places(made, rows):
    """Stream, shard and row of each sample; None for padding."""
    found = []
    for stream, sample in zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True):
        if sample < 0:
            found.append(None)
            continue
        shard, row = made.reading.readers[stream].find(np.array([sample]))
        found.append((stream, int(shard[0]), int(row[0])))
    return found


GOLDEN = Path(__file__).parents[1] / "golden" / "views.json"


def golden_orders(output):
    """Keys of the second epoch: they must never change, as a saved state would continue somewhere else."""
    orders = {}
    for algo in ("block", "full"):
        made = dataset(output, shuffle=True, shuffle_algo=algo, num_canonical_nodes=4)
        for _ in range(2):
            orders[algo] = keys_of(StreamingDataLoader(made))
    buckets = dataset(output, shuffle=True, batching=LengthBuckets(3))
    return orders | {"buckets": keys_of(StreamingDataLoader(buckets))}


def test_the_order_of_a_view_is_the_one_of_all_versions(output):
    """`HEADRACE_UPDATE_GOLDEN=1 pytest tests/streaming/test_views.py -k versions` writes the file again."""
    found = golden_orders(output)
    if os.environ.get("HEADRACE_UPDATE_GOLDEN"):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(keys)}" for name, keys in found.items())
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    assert found == json.loads(GOLDEN.read_text())
