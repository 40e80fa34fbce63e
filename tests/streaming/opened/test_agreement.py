"""All ranks open the snapshots that rank 0 finds, and a state opens its own."""

import pytest

from headrace import World
from headrace.errors import IntegrityError, NotFoundError, StateError
from headrace.streaming import distributed
from headrace.streaming.opened.agreement import open_all, open_for_state
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import OrderSpec
from headrace.streaming.order.state import StreamState, save
from headrace.streaming.shards.remote import StreamRequest
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def output(tmp_path):
    write_dataset(tmp_path / "out", {"train": clips(4)})
    return tmp_path / "out"


@pytest.fixture
def as_rank(monkeypatch):
    """A function that makes this process a rank of two, and passes what rank 0 shares on to rank 1."""
    shared = []

    def from_rank_zero(value):
        if distributed.current_world().rank == 0:
            shared[:] = [value]
        return shared[0]

    def become(rank):
        monkeypatch.setattr(distributed, "is_up", lambda: True)
        monkeypatch.setattr(distributed, "current_world", lambda: World(rank, 2))
        monkeypatch.setattr(distributed, "from_rank_zero", from_rank_zero)

    return become


def request(folder, **more):
    return StreamRequest(f"{folder}/audio", **more)


def test_another_rank_opens_the_snapshot_of_rank_0_although_a_newer_one_came_meanwhile(output, as_rank):
    as_rank(0)
    (first,) = open_all([request(output)])
    write_dataset(output, {"train": clips(9)})
    as_rank(1)
    (second,) = open_all([request(output)])
    assert second.primary.identity == first.primary.identity
    assert open_all([request(output)], agree=False)[0].primary.identity.snapshot == 2


def test_other_shards_under_the_same_name_are_an_error(output, as_rank, tmp_path):
    as_rank(0)
    open_all([request(output)])
    write_dataset(tmp_path / "copy", {"train": clips(4, first=90)})
    as_rank(1)
    with pytest.raises(IntegrityError, match="this rank finds other shards than rank 0"):
        open_all([request(tmp_path / "copy")])


def test_an_error_of_rank_0_is_that_of_every_rank(output, as_rank, tmp_path):
    for rank in (0, 1):
        as_rank(rank)
        with pytest.raises(NotFoundError, match="nowhere"):
            open_all([request(tmp_path / "nowhere")])


def state_of(opened, name="data"):
    data = opened.primary.identity
    stream = StreamState(name, data.split, data.snapshot, data.fingerprint)
    order = EpochOrder(OrderSpec(2), Mixture((StreamSpec(name, opened.primary.shards.num_samples),)), 0)
    return save(order, 0, [stream])


def test_a_state_opens_its_snapshot_and_streams_that_it_does_not_know_stay(output):
    asked = [request(output)]
    before = open_all(asked)
    state = state_of(before[0])
    write_dataset(output, {"train": clips(9)})
    now = open_all(asked)
    assert open_for_state(asked, ["data"], now, state)[0].primary.identity == before[0].primary.identity
    assert open_for_state(asked, ["other"], now, state) == now
    assert open_for_state(asked, ["data"], before, state) == before


def test_a_snapshot_that_is_gone_is_an_error_of_the_state(output):
    asked = [request(output)]
    state = state_of(open_all(asked)[0])
    write_dataset(output, {"train": clips(9)})
    (output / "audio/snapshots/00000001.json").unlink()
    with pytest.raises(StateError, match=r"the state was saved with data at .*which is gone"):
        open_for_state(asked, ["data"], open_all(asked), state)
