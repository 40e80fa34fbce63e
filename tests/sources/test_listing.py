"""Stamps of files: when two sets of stamps are equal, and when one contains another."""

import errno
import io
import os
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import StorageError
from headrace.sources import listing
from headrace.sources.listing import GatheredStamps, concatenated, stamps_of

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


NUMBERS = st.none() | st.integers(-(2**62), 2**62)
SOURCES = st.lists(st.tuples(st.sampled_from("abcdefgh"), NUMBERS, NUMBERS, NUMBERS), max_size=12)


def stamps(files):
    return stamps_of(*(zip(*files, strict=True) if files else ((), (), (), ())))


@pytest.mark.medium
@given(parts=st.lists(SOURCES, max_size=5), kept=st.sampled_from([1, 50, 1 << 20]))
def test_parts_give_the_stamps_of_all_files(parts, kept):
    """Also files that come twice, with equal or other stamps; in memory, and in temporary files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_GATHERED_BYTES", kept)
        with closing(GatheredStamps()) as gathered:
            for part in parts:
                gathered.add(stamps(part))
            whole = stamps([file for part in parts for file in part])
            for _ in range(2):
                assert gathered.all().equals(whole)
            assert len(gathered) == len(whole)


class FullFile(io.BytesIO):
    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_temporary_folder_is_named(monkeypatch):
    monkeypatch.setattr(listing.tempfile, "SpooledTemporaryFile", lambda _: FullFile())
    with closing(GatheredStamps()) as gathered, pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        gathered.add(stamps([("a", 1, 2, 3)]))
