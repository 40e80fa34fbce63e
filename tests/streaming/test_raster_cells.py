"""Compares the cells of a grid, and those with an event without a length, with exact fractions."""

import io
import json
import math
from fractions import Fraction

import numpy as np
import pytest
import soundfile

from headrace import StreamingDataLoader, StreamingDataset
from headrace.streaming.rasters import Raster, cut_events
from tests.support.tars import tar_of

RATE_HZ = 8000
SECONDS = 3
MARKS = [Fraction(number, 10) for number in range(SECONDS * 10)]
"""Places of events without a length, in seconds; as floats most of them are a little beside that."""
CUTS = {
    "whole": {},
    "windows": {"window_seconds": 0.5, "window_hop_seconds": 0.1, "last_window": "drop"},
    "windows of a half cell": {"window_seconds": 0.25, "window_hop_seconds": 0.1},
    "crop": {"crop_seconds": 0.7},
    "crop of a half cell": {"crop_seconds": 0.25},
}
DOORS = {
    "in place": {},
    "sample by sample": {"transform": lambda sample: sample},
    "resampled": {"sample_rate": 6000},
    "events alone": {"fields": ["metadata"]},
}


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    """A tar with one sample, of which each tenth of a second has an event: its number."""
    folder, flac = tmp_path_factory.mktemp("cells"), io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, RATE_HZ * SECONDS)
    soundfile.write(flac, noise, RATE_HZ, format="FLAC", subtype="PCM_16")
    marks = [{"start": float(place), "end": float(place), "label": number} for number, place in enumerate(MARKS)]
    members = {"k.flac": flac.getvalue(), "k.json": json.dumps({"marks": marks}).encode()}
    (folder / "train-000000.tar").write_bytes(tar_of(members))
    return folder


def cells(first, count, hz):
    """The grid of `count` frames from frame `first` on, by exact arithmetic; halves of T are rounded to even."""
    start = Fraction(first, RATE_HZ)
    stop, grid = start + Fraction(count, RATE_HZ), [-1] * round(Fraction(count, RATE_HZ) * hz)
    for number, place in enumerate(MARKS):
        cell = math.floor((place - start) * hz)
        if start <= place < stop and cell < len(grid):
            grid[cell] = number
    return grid


@pytest.mark.parametrize("hz", [10, 50, 12.5])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_mark_is_in_the_cell_that_contains_it_and_equal_parts_have_equally_many_cells(tars, cut, door, hz):
    rasters = {"grid": {"column": "marks", "hz": hz}}
    options = {"local": str(tars / "cache"), "output": "numpy", "rasters": rasters, **CUTS[cut], **DOORS[door]}
    num_rows = 0
    for batch in StreamingDataLoader(StreamingDataset(remote=str(tars), **options), num_workers=0):
        first = round(float(batch["start_seconds"][0]) * RATE_HZ) if cut != "whole" else 0
        count = round(next(iter(CUTS[cut].values()), SECONDS) * RATE_HZ)
        expected = cells(first, min(count, RATE_HZ * SECONDS - first), hz)
        assert batch["grid_length"].tolist() == [len(expected)]
        assert batch["grid"][0].tolist() == expected
        num_rows += 1
    assert num_rows > (20 if "windows" in cut else 0)


@pytest.mark.parametrize("place", [0.0, 0.29999999999999993, 0.3, 0.30000000000000004, 0.7999999999999999, 0.8])
def test_a_mark_is_in_one_of_the_parts_that_follow_each_other(place):
    """Sums of tenths are a little beside them."""
    for seconds in (0.1, 0.2, 0.5):
        found = []
        for part in range(10):
            kept = cut_events([{"start": place, "end": place, "label": 7}], part * seconds, (part + 1) * seconds)
            num_cells = round(seconds * 10)
            grid = Raster("column", 10).drawn(kept, num_cells)
            found += [part * num_cells + int(cell) for cell in np.flatnonzero(grid == 7)]
            assert all(0 <= event["start"] <= event["end"] for event in kept)
        assert found == [round(place * 10)]
