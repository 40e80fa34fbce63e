"""`exclude`: samples that must not be delivered any more are padding rows, and all else stays where it was."""

import json
from itertools import chain

import pytest

from headrace import FrameBudget, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError
from tests.support.streaming.corpus import clips, write_dataset

GONE = ("clip00003", "clip00017", "clip00031")


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(48)})
    return str(folder)


def made(output, rank=0, ranks=1, **more):
    size = 24 // ranks
    return StreamingDataset(remote=output, batch_size=size, world=World(rank, ranks), shuffle=True, **more)


def rows(dataset, **more):
    """Key of each row; empty for padding."""
    batches = list(StreamingDataLoader(dataset, **more))
    assert all(
        (key == "") == bool(pad)
        for batch in batches
        for key, pad in zip(batch["keys"], batch["is_padding"], strict=True)
    )
    return [batch["keys"] for batch in batches]


def without(batches):
    return [["" if key in GONE else key for key in batch] for batch in batches]


@pytest.mark.medium
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_excluded_samples_are_padding_and_the_others_stay_in_their_rows_after_a_resume(output, ranks):
    first = made(output)
    state = json.loads(json.dumps(first.state_dict(24)))
    for rank in range(ranks):
        plain, less = made(output, rank, ranks), made(output, rank, ranks, exclude=GONE)
        plain.load_state_dict(state)
        less.load_state_dict(state)
        expected = rows(plain) + rows(plain)
        assert rows(less) + rows(less) == without(expected)
        assert less.state_dict() == plain.state_dict()


@pytest.mark.medium
def test_single_samples_and_worker_processes_leave_them_out_too(output):
    expected = without(rows(made(output)))
    assert [sample["__key__"] for sample in made(output, exclude=GONE)] == list(chain.from_iterable(expected))
    assert rows(made(output, exclude=GONE), num_workers=2) == expected


def test_a_batch_of_excluded_samples_alone_is_padding(output):
    keys = rows(made(output))[0]
    first, second = rows(made(output, exclude=keys))
    assert first == [""] * 24
    assert "" not in second


def test_a_frame_budget_keeps_its_batches(output):
    budget = FrameBudget(frames_per_batch=20_000)
    expected = rows(made(output, batching=budget))
    assert rows(made(output, batching=budget, exclude=GONE)) == without(expected)


def test_a_key_that_no_stream_has_gives_a_warning(output):
    with pytest.warns(UserWarning, match="no stream has the key 'nobody'"):
        rows(made(output, exclude=["nobody"]))


def test_keys_are_a_list(output):
    with pytest.raises(ConfigError, match="exclude"):
        made(output, exclude="clip00003")
