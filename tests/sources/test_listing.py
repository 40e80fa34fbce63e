"""Stamps of files: when two sets of stamps are equal, and when one contains another."""

import numpy as np
import pytest

from headrace.sources.listing import concatenated, stamps_of

PATHS, SIZES, TIMES = ["a.wav", "b/ü.wav", "c.wav"], [1, 2, None], [10, 20, None]
FILES = stamps_of(PATHS, SIZES, TIMES)


def test_the_order_of_files_and_of_chunks_does_not_matter():
    backwards = stamps_of(PATHS[::-1], SIZES[::-1], TIMES[::-1])
    parts = concatenated([stamps_of(PATHS[2:], SIZES[2:], TIMES[2:]), stamps_of(PATHS[:2], SIZES[:2], TIMES[:2])])
    assert FILES.equals(backwards)
    assert FILES.equals(parts)
    assert FILES.digest == backwards.digest == parts.digest


@pytest.mark.parametrize(
    "other",
    [
        stamps_of(["a.wav", "b/u.wav", "c.wav"], SIZES, TIMES),
        stamps_of(PATHS, [1, 3, None], TIMES),
        stamps_of(PATHS, SIZES, [10, 21, None]),
        stamps_of(PATHS, [1, 2, 0], [10, 20, 0]),
        stamps_of(PATHS[:2], SIZES[:2], TIMES[:2]),
    ],
    ids=["path", "size", "time", "can be opened now", "gone"],
)
def test_path_size_and_time_of_every_file_are_compared(other):
    assert not FILES.equals(other)
    assert FILES.digest != other.digest
    assert FILES.are_in(other).sum() == 2


def test_an_empty_set_contains_no_stamps_and_is_contained_in_any_set():
    nothing = concatenated([])
    assert FILES.are_in(nothing).tolist() == [False] * 3
    assert nothing.are_in(FILES).tolist() == []
    assert FILES.are_in(FILES).all()


def test_rows_are_sorted_by_the_full_digest_of_their_path_including_trailing_zero_bytes():
    files = stamps_of([f"{number}.wav" for number in range(3000)], range(3000), range(3000))
    assert any(path[-1:] == b"\0" for path in (files.paths.tobytes()[i : i + 16] for i in range(0, 48_000, 16)))
    assert np.array_equal(files.paths, np.sort(files.paths))
    assert files.are_in(files).all()
