"""Stamps that are gathered part by part are those of all files together."""

import errno
import io
import os
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import StorageError
from headrace.sources import gathered_stamps
from headrace.sources.gathered_stamps import GatheredStamps
from headrace.sources.listing import stamps_of

NUMBERS = st.none() | st.integers(-(2**62), 2**62)
FILES = st.lists(st.tuples(st.sampled_from("abcdefgh"), NUMBERS, NUMBERS, NUMBERS), max_size=12)


def stamps(files):
    return stamps_of(*(zip(*files, strict=True) if files else ((), (), (), ())))


@given(parts=st.lists(FILES, max_size=5), kept=st.sampled_from([1, 50, 1 << 20]))
def test_parts_give_the_stamps_of_all_files(parts, kept):
    """Also files that come twice, with equal or other stamps; in memory, and in temporary files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered_stamps, "_KEPT_BYTES", kept)
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
    monkeypatch.setattr(gathered_stamps.tempfile, "SpooledTemporaryFile", lambda _: FullFile())
    with closing(GatheredStamps()) as gathered, pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        gathered.add(stamps([("a", 1, 2, 3)]))
