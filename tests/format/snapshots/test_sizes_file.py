"""`sizes.json` is written a piece at a time, with the bytes that it has when it is written at once."""

from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StorageError
from headrace.format.snapshots import sizes_file
from headrace.format.snapshots.sizes_file import write_sizes
from headrace.format.versioned_json import json_bytes
from headrace.stores.storage import open_storage
from headrace.upkeep.tar_indexes import read_sizes, write_folder_sizes

NAMES = st.text(st.sampled_from('ab-_0\u00e9\u4e2d"\\ .\x01'), min_size=1, max_size=6).map("{}.tar".format)
COUNTS = st.dictionaries(NAMES, st.integers(0, 10**12), max_size=9)
PIECES = st.tuples(st.integers(1, 4), st.sampled_from([1, 60, 1 << 20]))


def in_pieces(lines, most_bytes):
    return mock.patch.multiple(sizes_file, _PIECE_LINES=lines, _IN_MEMORY_BYTES=most_bytes)


@settings(deadline=None, max_examples=25)
@given(counts=COUNTS, pieces=PIECES)
def test_counts_are_written_as_one_json_object(counts, pieces):
    storage = open_storage("memory://")
    with in_pieces(*pieces):
        write_sizes(storage, counts.items())
    assert storage.read("sizes.json") == json_bytes(counts)


def test_a_full_temporary_folder_is_an_error_that_names_it_and_the_way_out(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    storage = open_storage("memory://")
    message = r"^temporary folder /\S+: sizes\.json cannot be written \(No space left on device\); .* TMPDIR"
    with in_pieces(1, 1), pytest.raises(StorageError, match=message):
        write_sizes(storage, {"a.tar": 1, "b.tar": 2}.items())
    assert not storage.exists("sizes.json")


PLAIN = st.text(st.sampled_from("ab-_0\u00e9"), min_size=1, max_size=2).map("{}.tar".format)
PATHS = st.tuples(st.sampled_from(["", "x/", "x/y/"]), PLAIN).map("".join)


@settings(deadline=None, max_examples=15)
@given(
    counts=st.dictionaries(PATHS, st.integers(0, 9), max_size=9),
    there=st.dictionaries(PLAIN, st.booleans(), max_size=9),
    pieces=PIECES,
)
def test_an_index_keeps_the_counts_of_other_tars_that_exist(counts, there, pieces):
    storage = open_storage("memory://")
    for name, exists in there.items():
        if exists:
            storage.write(name, b"")
    storage.write("sizes.json", json_bytes(dict.fromkeys(there, 100)))
    with in_pieces(*pieces):
        write_folder_sizes(storage, counts)
    kept = {name: 100 for name, exists in there.items() if exists}
    for folder in {path.rpartition("/")[0] for path in counts}:
        here = {path.rpartition("/")[2]: n for path, n in counts.items() if path.rpartition("/")[0] == folder}
        below = storage.at(folder) if folder else storage
        wanted = here if folder else kept | here
        assert below.read("sizes.json") == json_bytes(dict(sorted(wanted.items())))
        assert read_sizes(below) == wanted
