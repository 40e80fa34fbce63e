"""The seek points of a shard's index come back as they were, and forged ones are errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.indexes.seek_table import SeekTable, StoredPoints

PLACES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=4).map(lambda found: np.array(sorted(found), np.int64))
POINTS = st.builds(StoredPoints, st.integers(1, 4), st.integers(-3000, 0), st.integers(1, 1 << 16), PLACES)


@pytest.mark.medium
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(st.none() | POINTS, min_size=n, max_size=n), min_size=1)))
def test_points_come_back(rows):
    table = SeekTable.of(rows)
    if table is None:
        assert not any(found for row in rows for found in row)
        return
    assert table.flaw(np.full(table.grid.shape[:2], 1 << 41)) is None
    for number, row in enumerate(rows):
        for field, points in enumerate(row):
            found = table.points(number, field)
            assert (found is None) == (points is None)
            if points is not None:
                assert found[:3] == points[:3]
                assert np.array_equal(found.places, points.places)


def table():
    return SeekTable.of(
        [[StoredPoints(1, 0, 10, np.array([40, 50, 60]))], [None], [StoredPoints(2, -5, 8, np.array([7]))]]
    )


SIZES = np.array([[100], [0], [50]])


def test_places_take_four_bytes_in_files_of_less_than_two_gibibytes():
    assert table().places.dtype == np.int32
    assert SeekTable.of([[StoredPoints(1, 0, 10, np.array([1 << 31]))]]).places.dtype == np.int64


def forged(row, column, value):
    found = table()
    found.grid[row, 0, column] = value
    return found


FORGED = {
    "coding": forged(0, 0, 5),
    "no coding": forged(0, 0, 0),
    "first": forged(0, 1, -(1 << 63)),
    "step": forged(0, 2, 0),
    "large step": forged(0, 2, 1 << 17),
    "count": forged(0, 3, 4),
    "negative count": forged(0, 3, -1),
    "enormous count": forged(0, 3, (1 << 63) - 1),
    "numbers without points": forged(1, 2, 5),
    "outside": table()._replace(places=np.array([40, 50, 100, 7], np.int32)),
    "before": table()._replace(places=np.array([-1, 50, 60, 7], np.int32)),
    "falling": table()._replace(places=np.array([50, 40, 60, 7], np.int32)),
    "of a missing field": SeekTable.of([[None], [StoredPoints(1, 0, 10, np.array([4]))], [None]]),
    "rows": SeekTable.of([[StoredPoints(1, 0, 10, np.array([40]))]]),
    "dtype": table()._replace(places=table().places.astype(np.uint8)),
    "shape": table()._replace(places=table().places.reshape(2, 2)),
    "grid": table()._replace(grid=table().grid.astype(np.int32)),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_points_are_found(kind):
    assert table().flaw(SIZES) is None
    assert FORGED[kind].flaw(SIZES)


def test_equal_points():
    assert table().equals(table())
    assert not table().equals(None)
    assert not table().equals(FORGED["falling"])
