"""Events are cut and drawn as a loop over all cells of the grid would do."""

import math

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataLoader, StreamingDataset, collate
from headrace.errors import ConfigError, SampleError
from headrace.streaming.rasters import Raster, cut_events, events_of
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import RATE_HZ, clips, write_dataset

CLIPS = {clip.key: clip for clip in clips(20, frames=(4_000, 9_000))}
LABELS = ["C", "G", "N"]


def events(key):
    """Some events of a clip: some overlap, some have no length; one clip has none, and one no value."""
    number, seconds = CLIPS[key].number, CLIPS[key].num_frames / RATE_HZ
    if number % 7 == 0:
        return None if number else []
    random = np.random.default_rng(number)
    starts = np.sort(random.uniform(0, seconds, 6))
    ends = np.minimum(seconds, starts + random.choice([0, 0.05, 0.3], 6))
    return [
        {"start": float(start), "end": float(end), "label": LABELS[int(label)], "n": place}
        for place, (start, end, label) in enumerate(zip(starts, ends, random.integers(0, 3, 6), strict=True))
    ]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rasters")
    write_dataset(folder, {"train": list(CLIPS.values())}, latents=True)
    write_columns(folder, "marks", {"chords": ("json", events), "other": ("json", events)})
    return folder


def dataset(folder, *, multi=False, **options):
    raster = {"column": "chords", "hz": 40, "classes": LABELS, "multi": multi}
    defaults = {"batch_size": 4, "shuffle": True, "output": "numpy", "columns": ["marks"], "rasters": {"grid": raster}}
    return StreamingDataset(remote=str(folder / "audio"), local=str(folder / "cache"), **(defaults | options))


def brute_force(found, start, stop, hz, *, multi=False):
    """The grid, cell by cell."""
    cells = []
    for cell in range(round((stop - start) * hz)):
        middle, here = start + (cell + 0.5) / hz, set()
        last = -1
        for event in found:
            is_mark = event["start"] == event["end"]
            covers = event["start"] - 1e-9 <= middle < event["end"] - 1e-9
            in_cell = start + cell / hz <= event["start"] < start + (cell + 1) / hz and event["start"] < stop
            if in_cell if is_mark else covers:
                last = LABELS.index(event["label"])
                here.add(last)
        cells.append([label in here for label in range(3)] if multi else last)
    return np.array(cells, bool if multi else np.int64).reshape(-1, *([3] if multi else []))


@pytest.mark.medium
def test_ten_thousand_random_crops_equal_brute_force():
    random = np.random.default_rng(0)
    known = {key: events_of(events(key), "chords") for key in CLIPS}
    keys, rasters = sorted(known), [Raster("chords", 12.5, tuple(LABELS), multi) for multi in (False, True)]
    for _ in range(10_000):
        key = keys[random.integers(len(keys))]
        seconds = CLIPS[key].num_frames / RATE_HZ
        start = random.uniform(0, seconds - 0.1)
        stop = random.uniform(start + 0.05, seconds)
        multi = bool(random.integers(2))
        kept = cut_events(known[key], start, stop)
        expected = [e for e in known[key] if max(e["start"], start) < min(e["end"], stop) or start <= e["start"] < stop]
        assert [event["n"] for event in kept] == [event["n"] for event in expected]
        for event, whole in zip(kept, expected, strict=True):
            assert abs(event["start"] - (max(whole["start"], start) - start)) < 1e-12
            assert abs(event["end"] - (min(whole["end"], stop) - start)) < 1e-12
        drawn = rasters[multi].drawn(kept, round((stop - start) * 12.5))
        assert np.array_equal(drawn, brute_force(known[key], start, stop, 12.5, multi=multi))


CUTS = {
    "whole": {},
    "crop": {"crop_seconds": 0.31},
    "crop, resampled": {"crop_seconds": 0.31, "sample_rate": 4000},
    "crop with latents": {"crop_seconds": 0.31, "latents": ["crepe"]},
    "windows": {"window_seconds": 0.25, "window_hop_seconds": 0.2},
    "windows, transformed": {"window_seconds": 0.25, "transform": lambda sample: sample, "output": "torch"},
    "events alone": {"window_seconds": 0.25, "fields": ["metadata"]},
}


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_rows_of_batches_have_the_events_of_their_part(output, cut, multi):
    loader = StreamingDataLoader(dataset(output, multi=multi, **CUTS[cut]), num_workers=0)
    for batch in loader:
        starts = batch.get("start_seconds", np.zeros(4))
        assert str(batch["grid"].dtype).removeprefix("torch.") == ("bool" if multi else "int64")
        for row, key in enumerate(batch["keys"]):
            length = int(batch["grid_length"][row])
            grid = np.asarray(batch["grid"][row])
            assert (grid[length:] == (False if multi else -1)).all()
            if not key:
                assert length == 0
                continue
            known, start = events(key) or [], float(starts[row])
            stop = CLIPS[key].num_frames / RATE_HZ
            if cut != "whole":
                stop = min(stop, start + (0.31 if "crop" in cut else 0.25))
            assert np.array_equal(grid[:length], brute_force(known, start, stop, 40, multi=multi))
            left = batch["metadata"][row]["chords"]
            if cut == "whole" or events(key) is None:
                assert left == events(key)
            else:
                assert [event["n"] for event in left] == [e["n"] for e in cut_events(known, start, stop)]
            assert batch["metadata"][row]["other"] == events(key)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_workers_give_the_same(output, num_workers):
    loader = StreamingDataLoader(dataset(output, crop_seconds=0.3, output="torch"), num_workers=num_workers)
    total = sum(int((batch["grid"] >= 0).sum()) for batch in loader)
    assert total == sum(int((one["grid"] >= 0).sum()) for one in dataset(output, crop_seconds=0.3))


def test_samples_have_grids_of_their_own_length(output):
    samples = list(dataset(output, output="torch"))
    lengths = [len(one["grid"]) for one in samples if "is_padding" not in one]
    assert lengths == [round(one["audio"].shape[1] / RATE_HZ * 40) for one in samples if "is_padding" not in one]
    batch = collate(samples[:2], pad={"grid": -1})
    assert batch["grid"].dtype == torch.int64


def test_latents_alone_have_rasters_of_a_column(output):
    made = StreamingDataset(
        remote=str(output / "latents/crepe"), batch_size=4, output="numpy", columns=["marks"], crop_frames=10,
        rasters={"grid": {"column": "chords", "hz": 8, "classes": LABELS}},
    )  # fmt: skip
    for batch in StreamingDataLoader(made):
        for row, key in enumerate(batch["keys"]):
            if key:
                start = float(batch["start_seconds"][row])
                expected = brute_force(events(key) or [], start, start + 10 * 100 / RATE_HZ, 8)
                assert np.array_equal(batch["grid"][row], expected)


def test_labels_may_be_numbers_or_missing():
    found = events_of('[{"start": 0, "end": 0.5, "label": 7}, {"start": 0.5, "end": 1}]', "a")
    assert Raster("a", 4).drawn(found, 5).tolist() == [7, 7, 0, 0, -1]


@pytest.mark.parametrize("start", [0, 1e308])
@pytest.mark.parametrize("multi", [False, True])
def test_an_event_may_end_at_any_number(start, multi):
    found = events_of([{"start": start, "end": 1e308, "label": 1}], "a")
    cells = Raster("a", 50.0, classes=[0, 1], multi=multi).drawn(found, 3)
    assert cells.tolist() == [[[False, not start]] * 3, [[1, -1][start > 0]] * 3][not multi]


@pytest.mark.parametrize("end", [True, 10**400, "1", None, math.nan, math.inf])
def test_what_is_no_time_is_an_error_of_the_sample(end):
    with pytest.raises(SampleError, match="holds no events"):
        events_of([{"start": 0, "end": end}], "a")


@pytest.mark.parametrize("label", [1 << 63, -(1 << 70), -1, 1.5, "C", []])
def test_what_is_no_number_of_a_label_is_an_error_of_the_sample(label):
    with pytest.raises(SampleError, match="no classes say its number"):
        Raster("a", 4).drawn([{"start": 0, "end": 1, "label": label}], 5)


def test_streams_may_name_columns_of_their_own(output):
    def stream(column, **more):
        return Stream(
            str(output / "audio"),
            name=f"{column}{len(more)}",
            columns=["marks"],
            rasters={"x": {"column": column, "hz": 10, **more}},
        )

    streams = [stream("chords", classes=LABELS), stream("other", classes=LABELS)]
    made = StreamingDataset(streams=streams, batch_size=4, crop_seconds=0.3)
    assert all(batch["x"].shape == (4, 3) for batch in StreamingDataLoader(made))
    with pytest.raises(ConfigError, match="rasters: the streams differ in names, hz, classes or multi"):
        StreamingDataset(streams=[streams[0], stream("other")], batch_size=4)


@pytest.mark.parametrize(
    ("raster", "message"),
    [
        ({"column": "chords"}, r"rasters\['grid'\] is .*expected {'column': …, 'hz': …}"),
        ({"column": "chords", "hz": 0}, r"rasters\['grid'\]: hz is 0"),
        ({"column": "chords", "hz": 1, "multi": True}, "multi=True is given without classes"),
        ({"column": "chords", "hz": 1, "classes": ["a", "a"]}, "names a label twice"),
        (3, r"rasters\['grid'\] is 3"),
    ],
)
def test_rasters_that_make_no_sense_are_errors(output, raster, message):
    with pytest.raises(ConfigError, match=message):
        dataset(output, rasters={"grid": raster})


@pytest.mark.parametrize(
    ("raster", "message"),
    [
        ({"column": "chords", "hz": 5}, "has the label 'C', and no classes say its number"),
        ({"column": "chords", "hz": 5, "classes": ["C"]}, "which is not in classes"),
        ({"column": "beats", "hz": 5}, r"the metadata has no column 'beats', it has .*columns=\[…\]"),
        ({"column": "title", "hz": 5}, "column 'title' holds no events"),
    ],
)
def test_columns_that_cannot_be_drawn_are_errors_of_the_sample(output, raster, message):
    with pytest.raises(SampleError, match=message):
        list(StreamingDataLoader(dataset(output, rasters={"grid": raster}, batch_size=20)))


def test_a_field_of_batches_cannot_be_a_raster(output):
    with pytest.raises(ConfigError, match="'audio' is a raster and has the name of a field that every batch has"):
        dataset(output, rasters={"audio": {"column": "chords", "hz": 5, "classes": LABELS}})


def test_valid_frames_say_what_is_not_padding(output):
    for options in ({}, {"transform": lambda sample: sample}, {"window_seconds": 0.25}):
        made = dataset(output, valid_frames=True, **options)
        for batch in StreamingDataLoader(made):
            assert batch["valid_frames"].dtype == np.bool_
            assert batch["valid_frames"].shape == (4, batch["audio"].shape[2])
            assert batch["valid_frames"].sum(1).tolist() == batch["num_frames"].tolist()
            assert (np.diff(batch["valid_frames"].astype(int)) <= 0).all()


def test_samples_for_a_collate_fn_have_neither_padding_nor_its_mask(output):
    made = dataset(output, valid_frames=True, output="torch")
    loader = StreamingDataLoader(made, collate_fn=lambda samples: [set(one) for one in samples])
    assert all("valid_frames" not in names for batch in loader for names in batch)


def test_a_label_is_found_without_a_look_at_the_others():
    class Label(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other):
            Label.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    labels = tuple(Label(f"word{number}") for number in range(200))
    raster = Raster("words", 1.0, labels)
    Label.compared = 0
    grid = raster.drawn([{"start": n, "end": n + 1, "label": f"word{n}"} for n in range(200)], 200)
    assert grid.tolist() == list(range(200))
    assert Label.compared < 1000
    with pytest.raises(SampleError, match="which is not in classes"):
        raster.drawn([{"start": 0, "end": 1, "label": ["word1"]}], 1)
