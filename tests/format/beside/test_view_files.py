"""Files of views: committed whole, shared while nothing changes, and read back with their checksums."""

import numpy as np
import pytest

from headrace.errors import AlreadyExistsError, EmptyViewError, FormatError, IntegrityError, NotFoundError
from headrace.format.beside.view_files import (
    CountsRange,
    ViewOrigin,
    commit_view,
    missing_files,
    partitions_of,
    read_counts,
    read_counts_of_shard,
    read_totals,
    read_view,
)
from headrace.format.beside.views import PartitionCounts, ViewDefinition, counts_of
from headrace.format.shards.condemned import condemned
from headrace.format.snapshots.snapshots import read_table
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """Seven samples for training in two shards, and three for testing."""
    folder = tmp_path_factory.mktemp("output")
    audio = write_dataset(folder, {"train": clips(7), "test": clips(3, first=90)})
    return ViewOrigin(ViewDefinition("true"), audio, read_table(LocalStorage(folder / "audio"), audio.snapshot))


@pytest.fixture
def folder(tmp_path):
    return LocalStorage(tmp_path)


def committed(folder, origin, train, test=(0, 0, 0)):
    given = {"train-0000": train, "test-0000": test}
    parts = [
        PartitionCounts(name, origin.table.num_samples[rows], np.array(given[name], np.uint8))
        for name, rows in partitions_of(origin.table)
    ]
    return commit_view(folder, origin, parts)


COUNTS = [1, 0, 2, 0, 1, 0, 3]


def test_what_is_committed_is_read_back(folder, origin):
    view, is_new = committed(folder, origin, COUNTS)
    assert (view.number, is_new) == (1, True)
    assert read_view(folder) == view
    assert (view.snapshot.num_samples, view.snapshot.num_chosen) == (10, 4)
    assert read_totals(folder, view.snapshot).totals.tolist() == [0, 4, 3]
    file = view.snapshot.counts["train-0000"]
    assert counts_of(read_counts(folder, file), file.name).tolist() == COUNTS
    assert list(view.snapshot.counts) == ["train-0000"]  # nothing of the other partition is chosen
    assert missing_files(folder, view.snapshot) == []


def test_an_equal_view_is_not_committed_and_a_changed_one_shares_what_is_equal(folder, origin):
    first, _ = committed(folder, origin, COUNTS)
    assert committed(folder, origin, COUNTS) == (first, False)
    second, is_new = committed(folder, origin, COUNTS, (0, 1, 0))
    assert (second.number, is_new) == (2, True)
    assert second.snapshot.counts["train-0000"] == first.snapshot.counts["train-0000"]


def test_counts_of_one_shard_are_read_alone_and_checked(folder, origin):
    view, _ = committed(folder, origin, COUNTS)
    file = view.snapshot.counts["train-0000"]
    crc32 = int(read_totals(folder, view.snapshot).crc32[1])
    assert read_counts_of_shard(folder, CountsRange(file, 7, 5, crc32)).tolist() == COUNTS[:5]
    with pytest.raises(IntegrityError, match=rf"{file.name}.*do not have the CRC-32 {crc32 ^ 1:08x}"):
        CountsRange(file, 7, 5, crc32 ^ 1).parsed(bytes(COUNTS[:5]), file.name)


def test_a_view_that_chooses_nothing_is_an_error_and_the_last_one_stays(folder, origin):
    first, _ = committed(folder, origin, COUNTS)
    with pytest.raises(EmptyViewError, match="chooses none of 10 samples"):
        committed(folder, origin, [0] * 7)
    assert read_view(folder) == first


@pytest.mark.parametrize("read", [read_totals, lambda folder, view: read_counts(folder, view.counts["train-0000"])])
def test_a_damaged_file_is_an_error_that_names_it(folder, origin, read):
    view, _ = committed(folder, origin, COUNTS)
    for file in view.snapshot.files:
        folder.write(file.path, folder.read(file.path)[:-1] + b"?")
    with pytest.raises(FormatError, match="does not have the digest in its snapshot"):
        read(folder, view.snapshot)


def test_a_file_that_a_gc_is_about_to_delete_is_in_no_new_view(folder, origin):
    first, _ = committed(folder, origin, COUNTS)
    with (
        condemned(folder, [first.snapshot.counts["train-0000"].path]),
        pytest.raises(AlreadyExistsError, match="gc is deleting"),
    ):
        committed(folder, origin, COUNTS, (1, 1, 1))
    assert read_view(folder) == first


def test_a_view_that_is_not_there_is_an_error_that_lists_those_that_are(folder, origin):
    with pytest.raises(NotFoundError, match="no snapshot of a view yet; build the view first"):
        read_view(folder)
    committed(folder, origin, COUNTS)
    with pytest.raises(NotFoundError, match=r"snapshot 5 of the view is not there \(there are \[1\]\)"):
        read_view(folder, 5)
