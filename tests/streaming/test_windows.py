"""Windows in the loader: an epoch of them equals an epoch of shards that were cut before, on every world."""

import json
from collections import Counter

import numpy as np
import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, StateError
from headrace.streaming.asked import answers
from headrace.streaming.asked.asked_run import AskedRun, read_state
from headrace.streaming.order.spec import FrameBudget, LengthBuckets
from headrace.streaming.shards.access import ShardAccess
from tests.support.streaming.corpus import LATENT_HOP, RATE_HZ, clips, write_dataset
from tests.support.view_fixtures import write_view
from tests.support.views import chosen

TRAIN = clips(53)
TEST = clips(7, first=200)
ASKED = {"window_seconds": 0.05, "window_hop_seconds": 0.025}
LENGTH, HOP = 400, 200


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    write_dataset(folder, {"train": TRAIN, "test": TEST}, latents=True)
    write_view(folder, "some", chosen)
    return folder


def dataset(output, **options):
    defaults = {"remote": str(output / "audio"), "split": "train", "batch_size": 4, "output": "numpy"}
    return StreamingDataset(**(defaults | {"local": str(output / "cache")} | ASKED | options))


def cut(clip, last="pad", length=LENGTH, hop=HOP):
    """Key, start and audio of each window of a clip: frame by frame, what a script that cuts shards would do."""
    audio, found, covered = clip.audio(), [], 0
    for start in range(0, clip.num_frames, hop):
        stop = min(start + length, clip.num_frames)
        if (stop - start == length) if last == "drop" else stop > covered:
            found.append((clip.key, start / clip.rate_hz, audio[:, start:stop]))
            covered = stop
    return found


def items(batches):
    """Key, start and audio of each row."""
    for batch in batches:
        for row, key in enumerate(batch["keys"]):
            if key:
                yield key, float(batch["start_seconds"][row]), batch["audio"][row, :, : int(batch["num_frames"][row])]


def names(batches):
    return [[(key, start) for key, start, _ in items([batch])] for batch in batches]


def flat(batches):
    return [name for batch in names(batches) for name in batch]


EXPECTED = Counter((key, start) for clip in TRAIN for key, start, _ in cut(clip))


@pytest.mark.filterwarnings("ignore:no batch will come")
@pytest.mark.parametrize("last", ["pad", "drop"])
@pytest.mark.parametrize(("length", "hop"), [(400, 400), (400, 200), (160, 240), (10_000, 10_000)])
def test_windows_are_those_of_shards_that_were_cut_before(output, last, length, hop):
    options = {"window_seconds": length / RATE_HZ, "window_hop_seconds": hop / RATE_HZ, "last_window": last}
    made = dataset(output, **options)
    expected = [window for clip in TRAIN for window in cut(clip, last, length, hop)]
    assert made.size == len(expected)
    for found, wanted in zip(items(StreamingDataLoader(made)), expected, strict=True):
        assert found[:2] == wanted[:2]
        assert np.array_equal(found[2], wanted[2])


@pytest.mark.parametrize("batching", ["fixed", "length_buckets", FrameBudget(8000, 8, 64)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_has_each_window_once(output, batching, shuffle):
    made = dataset(output, batching=batching, shuffle=shuffle)
    assert made.size == EXPECTED.total()
    assert Counter(flat(StreamingDataLoader(made))) == EXPECTED


def test_a_view_takes_all_windows_of_each_copy(output):
    expected = [(key, start) for clip in TRAIN for _ in range(chosen(clip.key)) for key, start, _ in cut(clip)]
    made = dataset(output, view="some")
    assert flat(StreamingDataLoader(made)) == expected
    assert made[-1]["__key__"] == expected[-1][0]


@pytest.mark.medium
@pytest.mark.parametrize("batching", ["fixed", LengthBuckets(3), FrameBudget(8000, 8, 64)])
def test_global_batches_of_windows_are_the_same_on_every_world(output, batching):
    def on(world_size):
        made = [
            dataset(output, world=World(rank, world_size), batch_size=8 // world_size, batching=batching, shuffle=True)
            for rank in range(world_size)
        ]
        parts = [names(StreamingDataLoader(one)) for one in made]
        return [sorted(name for part in batch for name in part) for batch in zip(*parts, strict=True)]

    assert on(1) == on(2) == on(8)


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_resumed_run_on_another_world_continues_exactly(output, num_workers):
    whole = names(StreamingDataLoader(dataset(output, shuffle=True, view="some")))
    loader = StreamingDataLoader(dataset(output, shuffle=True, view="some"), num_workers=num_workers)
    batches = iter(loader)
    begun = names([next(batches) for _ in range(5)])
    state = json.loads(json.dumps(loader.state_dict()))
    parts = []
    for rank in range(2):
        rest = StreamingDataLoader(dataset(output, shuffle=True, view="some", batch_size=2, world=World(rank, 2)))
        rest.load_state_dict(state)
        parts.append(names(rest))
    assert begun == whole[:5]
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == [sorted(batch) for batch in whole[5:]]


@pytest.mark.parametrize(
    ("now", "way_out"),
    [
        ({"window_hop_seconds": None}, "pass window_seconds=0.05, window_hop_seconds=0.025, last_window='pad'"),
        ({"last_window": "drop"}, "pass window_seconds=0.05, window_hop_seconds=0.025, last_window='pad'"),
        ({"window_seconds": None, "window_hop_seconds": None}, "pass window_seconds=0.05"),
    ],
)
def test_a_state_of_other_windows_is_refused(output, now, way_out):
    loader = StreamingDataLoader(dataset(output))
    next(iter(loader))
    with pytest.raises(StateError, match=way_out):
        dataset(output, **now).load_state_dict(loader.state_dict())


def test_a_state_of_whole_samples_is_refused_by_windows(output):
    state = dataset(output, window_seconds=None, window_hop_seconds=None).state_dict()
    with pytest.raises(StateError, match="leave out window_seconds"):
        dataset(output).load_state_dict(state)


def test_a_batch_has_room_for_a_whole_window(output):
    """Also a batch of the ends of samples, in place and sample by sample."""
    for options in ({}, {"sample_rate": RATE_HZ // 2}):
        made = dataset(output, window_hop_seconds=None, batch_size=1, **options)
        widths = {batch["audio"].shape[2] for batch in StreamingDataLoader(made)}
        assert widths == {LENGTH // (2 if options else 1)}


def test_padding_rows_and_padding_frames_are_zero(output):
    for batch in StreamingDataLoader(dataset(output, batch_size=64)):
        for row, count in enumerate(batch["num_frames"].tolist()):
            assert not batch["audio"][row, :, count:].any()
        assert batch["start_seconds"].dtype == np.float64
        assert not batch["start_seconds"][batch["is_padding"]].any()


def test_joined_latents_are_cut_at_the_time_of_the_window(output):
    by_key = {clip.key: clip for clip in TRAIN}
    for batch in StreamingDataLoader(dataset(output, latents=["crepe"], shuffle=True)):
        for row, (key, start) in enumerate(zip(batch["keys"], batch["start_seconds"].tolist(), strict=True)):
            if key:
                hidden = by_key[key].hidden()
                first = min(round(start * RATE_HZ) // LATENT_HOP, len(hidden) - 1)
                wanted = hidden[first : first + max(1, round(int(batch["num_frames"][row]) / LATENT_HOP - 0.01))]
                assert int(batch["encoder_offset"][row]) == first
                found = batch["encoder_hidden"][row, : int(batch["encoder_length"][row])]
                assert np.array_equal(found[: len(wanted)], wanted[: len(found)])


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_latents_alone_are_cut_by_their_own_rate(output, num_workers):
    made = dataset(output, remote=str(output / "latents/crepe"), window_hop_seconds=None)
    loader = StreamingDataLoader(made, num_workers=num_workers)
    columns = ("keys", "start_seconds", "encoder_hidden", "encoder_length")
    rows = [row for batch in loader for row in zip(*(batch[name] for name in columns), strict=True)]
    found = [(key, float(start), hidden[:length]) for key, start, hidden, length in rows if key]
    wanted = [(c, first) for c in TRAIN for first in range(0, len(c.hidden()), 4)]
    for (key, start, hidden), (clip, first) in zip(found, wanted, strict=True):
        assert (key, start) == (clip.key, first * LATENT_HOP / RATE_HZ)
        assert np.array_equal(hidden, clip.hidden()[first : first + 4])


def test_streams_may_have_windows_of_their_own(output):
    remote = str(output / "audio")
    streams = [
        Stream(remote, split="train", window_seconds=0.05, last_window="drop"),
        Stream(remote, split="test", window_seconds=0.02),
        Stream(remote, split="test", name="whole"),
    ]
    made = StreamingDataset(streams=streams, batch_size=4, output="numpy", batching_method="per_stream")
    expected = [(key, start) for clip in TRAIN for key, start, _ in cut(clip, "drop", 400, 400)]
    expected += [(key, start) for clip in TEST for key, start, _ in cut(clip, "pad", 160, 160)]
    assert Counter(flat(StreamingDataLoader(made))) == Counter(expected + [(clip.key, 0.0) for clip in TEST])


def test_plain_tars_have_windows(output):
    made = dataset(output, remote=str(output / "audio/train_*.tar"), split=None)
    assert Counter(flat(StreamingDataLoader(made))) == EXPECTED


def test_a_transform_gets_the_window_and_its_start(output):
    def noted(sample):
        sample["note"] = (sample["__key__"], sample["start_seconds"], sample["audio"].shape[1])
        return sample

    found = [note for batch in StreamingDataLoader(dataset(output, transform=noted)) for note in batch["note"] if note]
    assert found == [(key, start, audio.shape[1]) for clip in TRAIN for key, start, audio in cut(clip)]


def test_fields_without_audio_still_say_which_window_it_is(output):
    made = dataset(output, fields=["metadata"])
    assert [(sample["__key__"], sample["start_seconds"]) for sample in made] == list(EXPECTED)


def test_windows_are_counted_once_on_a_host(output, tmp_path, monkeypatch):
    asked = []
    load = ShardAccess.index
    monkeypatch.setattr(ShardAccess, "index", lambda self, shard: asked.append(shard) or load(self, shard))
    first = dataset(output, local=str(tmp_path))
    assert sorted(asked) == list(range(11))
    asked.clear()
    again = dataset(output, local=str(tmp_path))
    assert (again.size, asked) == (first.size, [])
    (kept,) = (tmp_path / "windows").glob("*.windows")
    kept.write_bytes(kept.read_bytes()[:-3])
    assert dataset(output, local=str(tmp_path)).size == first.size
    assert len(asked) == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop_seconds": 1.0}, "window_seconds and a crop are both given"),
        ({"crop_frames": 10}, "window_seconds and a crop are both given"),
        ({"window_seconds": None}, "window_hop_seconds=0.025 is given without window_seconds"),
        ({"window_seconds": 0}, "window_seconds is 0: expected a finite number above 0"),
        ({"last_window": "keep"}, "last_window is 'keep': expected one of 'pad', 'drop'"),
    ],
)
def test_windows_that_make_no_sense_are_errors(output, options, message):
    with pytest.raises(ConfigError, match=message):
        dataset(output, **options)


@pytest.mark.parametrize("options", [{}, {"split": None, "view": "some"}])
def test_questions_about_a_run_know_windows(output, tmp_path, options):
    loader = StreamingDataLoader(dataset(output, shuffle=True, **options))
    batches = [batch for _, batch in zip(range(6), loader, strict=False)]
    path = tmp_path / "state.json"
    path.write_text(json.dumps(loader.state_dict()))
    run = AskedRun.opened(read_state(str(path)), [str(output / "audio")])
    assert [(row.key, row.start_seconds) for row in answers.batch(run, 2)] == flat([batches[2]])
    key, _ = flat(batches)[0]
    assert len(answers.seen(run, key)) == sum(one == key for one, _ in flat(batches))
    bill = answers.bill(run)
    assert sum(row.samples for row in bill.rows) == len(flat(batches))
    seconds = sum(int(batch["num_frames"].sum()) for batch in batches) / RATE_HZ
    assert sum(row.hours for row in bill.rows) == pytest.approx(seconds / 3600)
    assert {row.group[1] for row in bill.rows} <= {"train", "test"}
