"""Errors about states: which setting or data differ, and the instruction that makes them equal again."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.errors import StateError
from headrace.format.tars.member_names import KeyAt
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.order.state import StreamState, ViewState, resume, save

SPEC = OrderSpec(24, shuffle=True)


def of(**samples):
    """A mixture of streams of 300 samples, which give this many in an epoch."""
    return Mixture(tuple(StreamSpec(name, np.full(12, 25), choose=count) for name, count in samples.items()))


def read_by(mixture, **facts):
    return [replace(StreamState(stream.name, "train", 7, f"of {stream.name}"), **facts) for stream in mixture.streams]


def saved(mixture, row=48, spec=SPEC, **facts):
    return save(EpochOrder(spec, mixture, 0), row, read_by(mixture, **facts))


@pytest.mark.parametrize(
    ("now", "instruction"),
    [
        ({"shuffle_seed": 1}, "with 9176, but now it is 1, .* set shuffle_seed to 9176, or start"),
        ({"sampling_method": "fixed"}, "with balanced, but now it is fixed, .* set sampling_method to balanced, or"),
        ({"buckets": LengthBuckets(4)}, "set batching to fixed, or start"),
    ],
)
def test_a_setting_is_set_back_to_what_it_was(now, instruction):
    with pytest.raises(StateError, match=instruction):
        resume(saved(of(a=300)), replace(SPEC, **now), of(a=300), read_by(of(a=300)))


@pytest.mark.parametrize("buckets", [LengthBuckets(4), FrameBudget(900)], ids=str)
def test_length_buckets_are_set_back_by_the_text_that_the_argument_takes(buckets):
    state = saved(of(a=300), row=0, spec=replace(SPEC, buckets=buckets))
    with pytest.raises(StateError) as raised:
        resume(state, SPEC, of(a=300), read_by(of(a=300)))
    assert f"; set batching to {buckets}, or start" in str(raised.value)


@pytest.mark.parametrize(
    ("before", "now", "instruction"),
    [
        (
            {"snapshot": None},
            {"snapshot": 8},
            "pass snapshot=… with the number of the one that was read then, if not 8",
        ),
        ({"snapshot": None}, {"snapshot": None}, "read the data set that it was saved on"),
        ({"snapshot": 7}, {"snapshot": 7}, "read the data set that it was saved on"),
        ({"snapshot": 7}, {"snapshot": 8}, "open snapshot 7"),
        ({"key_at": KeyAt.LAST_DOT}, {}, "pass key_at='last_dot'"),
        ({}, {"key_at": KeyAt.LAST_DOT}, "pass key_at='first_dot'"),
        ({"latents_snapshots": (1, 2)}, {"latents_snapshots": (1,)}, "join 2 folders of latents"),
        ({"split": None}, {}, "pass split=None"),
        ({"view": ViewState("clean", 3)}, {}, r"pass its view \(clean\) at snapshot 3"),
        ({}, {"view": ViewState("snr > 20")}, "pass no view= or where="),
        ({"view": ViewState("snr > 20")}, {"view": ViewState("snr > 9")}, "define it again as: snr > 20"),
        ({"view": ViewState("clean", 3)}, {"view": ViewState("clean", 4)}, "open snapshot 3 of the view"),
        (
            {"view": ViewState("snr > 20", columns=(("captions", 1),))},
            {"view": ViewState("snr > 20", columns=(("captions", 2),))},
            "the columns that the condition reads have changed: restore their snapshots",
        ),
        ({"view": ViewState("clean", 3)}, {"view": ViewState("clean", 3)}, "read the data set that it was saved on"),
    ],
)
def test_other_data_are_an_error_with_the_way_back(before, now, instruction):
    state = saved(of(a=300), **before)
    with pytest.raises(StateError, match=instruction):
        resume(state, SPEC, of(a=300), read_by(of(a=300), **({"fingerprint": "other"} | now)))


def test_the_mixture_that_is_named_is_the_last_one():
    first, second, third = of(a=300), of(a=250), of(a=200)
    order = resume(saved(first), SPEC, second, read_by(second), change_streams=True)
    state = save(order, 96, read_by(second))
    assert len(state.phases) == 2
    with pytest.raises(StateError, match="was saved with a: 202 samples, but now it is a: 152 samples"):
        resume(state, SPEC, third, read_by(third))


def test_streams_that_came_or_went_are_an_error_without_change_streams():
    with pytest.raises(StateError, match=r"was saved with \['a'\], but now they are \['a', 'b'\]"):
        resume(saved(of(a=300)), SPEC, of(a=300, b=300), read_by(of(a=300, b=300)))


def test_another_mixture_at_the_beginning_is_as_if_it_had_been_there():
    order = resume(saved(of(a=300), row=0), SPEC, of(a=200), read_by(of(a=200)), change_streams=True)
    assert order.phases == EpochOrder(SPEC, of(a=200), 0).phases
    later = resume(saved(of(a=300), row=1), SPEC, of(a=200), read_by(of(a=200)), change_streams=True)
    assert len(later.phases) == 2


@pytest.mark.parametrize(("row", "is_inside"), [(300, True), (312, True), (324, False)])
def test_a_position_may_be_among_the_padding_of_the_last_batch(row, is_inside):
    state = replace(saved(of(a=300)), sample_in_epoch=row)
    if is_inside:
        assert resume(state, SPEC, of(a=300), read_by(of(a=300))).start == row
    else:
        with pytest.raises(StateError, match="is 324, but the epoch has 300 rows"):
            resume(state, SPEC, of(a=300), read_by(of(a=300)))


def test_a_stream_has_given_nothing_by_default():
    assert StreamState("a", None, None, "x").position == 0
