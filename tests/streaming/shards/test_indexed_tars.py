"""Tars of others at a snapshot: those that were written again, are gone, are empty or came later."""

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import HeadraceError, IntegrityError, NotFoundError
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from tests.support.foreign_tars import members, write_tars
from tests.support.tars import tar_of


def index(tars):
    index_tars(str(tars), num_threads=2, columns=True)


def keys(remote, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=remote, batch_size=2, **more))
    return sorted(key for batch in loader for key in batch["keys"] if key)


def rewritten(tars, numbers):
    """Write `train-001.tar` again with other samples, and index the tars again. A view of the tars stays as it was."""
    blobs = [members(number) for number in numbers]
    (tars / "train-001.tar").write_bytes(tar_of({name: blob for one in blobs for name, blob in one.items()}))
    index(tars)


def stated(tars, **selection):
    loader = StreamingDataLoader(StreamingDataset(remote=str(tars), batch_size=1, **selection))
    next(iter(loader))
    return loader.state_dict()


def resumed(tars, state, **selection):
    loader = StreamingDataLoader(StreamingDataset(remote=str(tars), batch_size=1, **selection))
    loader.load_state_dict(state)
    return list(loader)


SELECTIONS = {"view": {"view": "loud"}, "where": {"where": "snr >= 1.5"}, "columns": {"columns": ["metadata"]}}
ORDERS = {"others": [6, 4, 5, 7], "fewer": [4], "more": [2, 3, 4, 5, 6, 7]}
AGAIN = r"train-001\.tar: was written and indexed again since the snapshot that is read"


@pytest.mark.medium
@pytest.mark.parametrize("numbers", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_samples_of_a_snapshot_are_not_looked_for_in_a_tar_that_was_written_again(selection, numbers, tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    make_view(str(tars), "loud", "snr >= 1.5")
    state = stated(tars, **selection)
    opened_before = StreamingDataset(remote=str(tars), batch_size=1, **selection)
    assert len(opened_before)
    rewritten(tars, numbers)
    with pytest.raises(IntegrityError, match=AGAIN):
        keys(str(tars), snapshot=1, **SELECTIONS["where"])
    for read in (lambda: list(StreamingDataLoader(opened_before)), lambda: resumed(tars, state, **selection)):
        with pytest.raises(HeadraceError, match=AGAIN):
            read()
    if "view" in selection:
        with pytest.raises(IntegrityError, match=AGAIN):
            keys(str(tars), **selection)
    make_view(str(tars), "loud", "snr >= 1.5")
    assert keys(str(tars), **SELECTIONS["where"]) == keys(str(tars), **SELECTIONS["view"])


@pytest.mark.medium
def test_a_tar_that_is_gone_is_named_by_readers_of_an_older_view(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    make_view(str(tars), "loud", "snr >= 1.5")
    (tars / "train-001.tar").unlink()
    for _ in range(2):
        with pytest.raises(
            NotFoundError, match=r"train-001\.tar: the tar is gone since .*`headrace view` for each view"
        ):
            keys(str(tars), view="loud")
        index(tars)
    make_view(str(tars), "loud", "snr >= 1.5")
    assert keys(str(tars), view="loud") == [f"s{number:03d}" for number in (3, 8, 9, 10, 11)]


def test_empty_tars_of_a_set_are_no_reason_to_warn(tmp_path, recwarn):
    tars = write_tars(tmp_path / "tars")
    (tars / "empty-000.tar").write_bytes(tar_of({}))
    index(tars)
    assert len(keys(str(tars), where="true")) == 12
    assert not [str(one.message) for one in recwarn if "are not read" in str(one.message)]


@pytest.mark.medium
def test_a_tar_that_came_after_a_view_is_said_with_the_way_out(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    make_view(str(tars), "all", "true")
    write_tars(tars, 1, prefix="x-", first=50)
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"1 tars are not read \(x-000\.tar\).*`headrace view` for the view"):
            assert len(keys(str(tars), view="all")) == 12
        index(tars)
    assert len(keys(str(tars), where="true")) == 16
