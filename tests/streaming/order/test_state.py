import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StateError
from headrace.format.tars.member_names import KeyAt
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.order.state import OrderState, StreamState, ViewState, resume, save
from tests.support.strategies import mixtures, order_specs
from tests.support.streaming.known import EarlierScan
from tests.support.streaming.states import frames_of, given_by, order_of, pairs, rows_of, snapshots, through_json, two

KINDS = [None, LengthBuckets(3), FrameBudget(24 * 50, batch_multiple=12, window_samples=200)]


@pytest.mark.medium
@pytest.mark.parametrize("buckets", KINDS, ids=str)
@given(spec=order_specs(), mixture=mixtures(), data=st.data())
@settings(max_examples=25)
def test_a_run_cut_after_any_batch_and_resumed_on_another_world_is_an_uninterrupted_run(buckets, spec, mixture, data):
    check_cut(buckets, spec, mixture, data, worlds=(2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("buckets", KINDS, ids=str)
@given(spec=order_specs(), mixture=mixtures(), data=st.data())
@settings(max_examples=100)
def test_many_runs_cut_and_resumed_on_larger_worlds_are_uninterrupted_runs(buckets, spec, mixture, data):
    check_cut(buckets, spec, mixture, data, worlds=(2, 6))


def check_cut(buckets, spec, mixture, data, *, worlds):
    """With every batching method, mixture and way to shuffle; with length buckets where they are allowed."""
    if buckets is not None:
        spec = replace(spec, batching_method="random", buckets=buckets)
    order = order_of(spec, mixture, 1)
    known = EarlierScan(mixture, frames_of)
    whole = in_buckets(order, known)
    cut = data.draw(st.integers(0, whole.num_batches))
    state = through_json(save(order, whole.batch_start(cut), snapshots(mixture)))
    resumed = in_buckets(resume(state, spec, mixture, snapshots(mixture)), known)
    assert resumed.num_batches == whole.num_batches - cut
    assert rows_of(resumed, worlds) == [
        row for batch in range(cut, whole.num_batches) for row in pairs(whole.batch(batch))
    ]


@pytest.mark.medium
@pytest.mark.parametrize("method", ["stratified", "per_stream"])
@pytest.mark.parametrize("last_batch", ["pad", "drop"])
def test_streams_with_batch_sizes_of_their_own_resume_after_any_batch(method, last_batch):
    sizes = {"a": np.array([50, 0, 31]), "b": np.array([25])}
    mixture = Mixture(tuple(StreamSpec(n, sizes[n], batch_size=size) for n, size in (("a", 18), ("b", 6))))
    spec = OrderSpec(24, shuffle=True, batching_method=method, last_batch=last_batch)
    order = EpochOrder(spec, mixture, 2)
    for cut in sorted({*range(0, order.num_batches + 1, 4), order.num_batches - 1, order.num_batches}):
        state = through_json(save(order, order.batch_start(cut), snapshots(mixture)))
        rest = resume(state, spec, mixture, snapshots(mixture))
        assert rows_of(rest, (1, 3)) == [row for i in range(cut, order.num_batches) for row in pairs(order.batch(i))]


@pytest.mark.medium
@given(order_specs(methods=["random"], last=["pad"]), mixtures(), st.data())
@settings(max_examples=30)
def test_the_global_batch_may_change_on_resume_where_the_order_does_not_depend_on_it(spec, mixture, data):
    order = EpochOrder(spec, mixture, 0)
    row = data.draw(st.integers(0, order.num_samples))
    state = save(order, row, snapshots(mixture))
    resumed = resume(state, replace(spec, global_batch_size=7), mixture, snapshots(mixture))
    rest = rows_of(order)[row : order.num_samples]
    assert rows_of(resumed)[: len(rest)] == rest


@pytest.mark.parametrize("method", [m for m in BatchingMethod if m != "random"])
def test_another_global_batch_is_rejected_where_the_order_depends_on_it(method):
    spec = OrderSpec(24, batching_method=method)
    mixture = two(a={}, b={})
    state = save(EpochOrder(spec, mixture, 0), 48, snapshots(mixture))
    with pytest.raises(StateError, match=r"with 24, but now it is 48.*set batch_size so that .* is 24"):
        resume(state, replace(spec, global_batch_size=48), mixture, snapshots(mixture))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shuffle", False),
        ("shuffle_seed", 1),
        ("num_canonical_nodes", 8),
        ("shuffle_block_size", 99),
        ("sampling_method", "fixed"),
        ("batching_method", "stratified"),
        ("last_batch", "drop"),
        ("buckets", LengthBuckets(4)),
        ("buckets", FrameBudget(900)),
    ],
)
def test_a_state_is_rejected_by_the_name_of_the_setting_that_differs(field, value):
    spec, mixture = OrderSpec(24, shuffle=True), two(a={}, b={})
    state = save(EpochOrder(spec, mixture, 0), 48, snapshots(mixture))
    with pytest.raises(StateError, match=f"{field} differs"):
        resume(state, replace(spec, **{field: value}), mixture, snapshots(mixture))


def test_a_state_is_rejected_on_other_data():
    spec, mixture = OrderSpec(24), two(a={}, b={})
    state = save(EpochOrder(spec, mixture, 0), 48, snapshots(mixture))
    other = [replace(stream, snapshot=8, fingerprint="other") for stream in snapshots(mixture)]
    with pytest.raises(StateError, match=r"stream 'a' differ.*snapshot 7 .*now it reads .*snapshot 8.*open snapshot 7"):
        resume(state, spec, mixture, other)


def test_data_that_moved_resume_by_their_fingerprint():
    spec, before = OrderSpec(24, shuffle=True), two(a={}, b={})
    moved = Mixture(tuple(replace(stream, name=f"elsewhere/{stream.name}") for stream in before.streams))
    state = save(EpochOrder(spec, before, 0), 48, snapshots(before))
    now = [replace(stream, name=f"elsewhere/{stream.name}") for stream in snapshots(before)]
    assert rows_of(resume(state, spec, moved, now)) == rows_of(EpochOrder(spec, before, 0))[48:]


@pytest.mark.parametrize(
    ("now", "way_back"),
    [
        ({"split": "test"}, "it reads split 'test' of snapshot 7 .*; pass split='train'"),
        ({"split": None}, "it reads all splits of snapshot 7 .*; pass split='train'"),
        ({"fingerprint": "other"}, "read the data set that it was saved on"),
        ({"fingerprint": "other", "snapshot": None}, "read the data set that it was saved on"),
        ({"fingerprint": "other", "latents_snapshots": (1,)}, "join 0 folders of latents, as in the saved run"),
    ],
)
def test_a_state_on_other_samples_of_as_many_is_rejected_with_a_remedy(now, way_back):
    spec, mixture = OrderSpec(24), two(a={})
    state = save(EpochOrder(spec, mixture, 0), 48, snapshots(mixture))
    with pytest.raises(StateError, match=way_back):
        resume(state, spec, mixture, [replace(stream, **now) for stream in snapshots(mixture)])


def test_streams_that_change_places_keep_their_names_even_if_they_read_the_same_data():
    spec, before, after = OrderSpec(24, shuffle=True), two(a={}, b={}), two(b={}, a={})
    same = [replace(stream, fingerprint="same") for stream in snapshots(before)]
    state = save(EpochOrder(spec, before, 0), 48, same)
    changed = resume(state, spec, after, same[::-1], change_streams=True)
    first, rest = given_by(rows_of(EpochOrder(spec, before, 0))[:48], before), given_by(rows_of(changed), after)
    assert all((first[name] + rest[name] == 1).all() for name in "ab")


def test_another_mixture_is_rejected_without_change_streams():
    spec, mixture, other = OrderSpec(24), two(a={"choose": 50}), two(a={"choose": 60})
    state = save(EpochOrder(spec, mixture, 0), 24, snapshots(mixture))
    with pytest.raises(StateError, match=r"a: 50 samples, but now it is a: 60 samples.*change_streams=True"):
        resume(state, spec, other, snapshots(other))


def test_a_state_names_what_mosaicml_states_name():
    mixture = two(a={})
    state = save(EpochOrder(OrderSpec(24), mixture, 3), 48, snapshots(mixture)).to_json()
    assert {name: state[name] for name in ("epoch", "sample_in_epoch", "shuffle_seed", "num_canonical_nodes")} == {
        "epoch": 3,
        "sample_in_epoch": 48,
        "shuffle_seed": 9176,
        "num_canonical_nodes": 64,
    }
    assert state["streams"] == [
        {"name": "a", "split": "train", "snapshot": 7, "fingerprint": "digest of a", "position": 48}
    ]


@pytest.mark.medium
@given(order_specs(), mixtures())
@settings(max_examples=30)
def test_a_state_holds_plain_values_so_that_a_checkpoint_loads_with_weights_only(spec, mixture):
    state = save(order_of(spec, mixture), 0, snapshots(mixture)).to_json()
    waiting = [state]
    while waiting:
        value = waiting.pop()
        assert type(value) in {dict, list, str, int, float, bool, type(None)}, value
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"headrace_state": 1}, "headrace_state is 1, expected 2"),
        ({"headrace_state": None}, "written by something else"),
        ({"order": {"global_batch_size": 0}}, "has an invalid value: global_batch_size is 0"),
        ({"phases": [{"start": 0}]}, "missing or unknown: 'streams'"),
        ({"phases": []}, "has no phases"),
        ({"epoch": -1}, "epoch is -1, expected a whole number from 0 on"),
        ({"sample_in_epoch": 2.5}, "sample_in_epoch is 2.5"),
    ],
)
def test_a_state_that_was_damaged_is_rejected(change, message):
    mixture = two(a={})
    state = save(EpochOrder(OrderSpec(24), mixture, 3), 48, snapshots(mixture)).to_json()
    with pytest.raises(StateError, match=message):
        OrderState.from_json(state | change)


def test_a_state_behind_the_end_of_its_epoch_is_rejected():
    spec, mixture = OrderSpec(24), two(a={})
    state = replace(save(EpochOrder(spec, mixture, 0), 48, snapshots(mixture)), sample_in_epoch=10**6)
    with pytest.raises(StateError, match="sample_in_epoch is 1000000, but the epoch has 300 rows"):
        resume(state, spec, mixture, snapshots(mixture))


def test_a_state_inside_a_batch_is_rejected_where_the_order_depends_on_the_batches():
    mixture = two(a={}, b={})
    spec = OrderSpec(24, batching_method="per_stream")
    with pytest.raises(StateError, match=r"no global batch begins there \(one does at 24\)"):
        EpochOrder(spec, mixture, 0, start=30)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "split 'train' of snapshot 7 (digest)"),
        ({"snapshot": None}, "split 'train' (digest)"),
        ({"split": None, "latents_snapshots": (3, 4)}, "all splits of snapshot 7 with latents at 3, 4 (digest)"),
        ({"key_at": KeyAt.LAST_DOT}, "split 'train' of snapshot 7 with key_at='last_dot' (digest)"),
        ({"columns_snapshots": (("tags", 2),)}, "split 'train' of snapshot 7 with columns tags at 2 (digest)"),
        ({"view": ViewState("clean", 3)}, "split 'train' of snapshot 7 with view (clean) at snapshot 3 (digest)"),
        ({"view": ViewState("snr > 20")}, "split 'train' of snapshot 7 with view (snr > 20) (digest)"),
    ],
)
def test_messages_name_what_a_stream_reads(changes, said):
    stream = StreamState(name="a", split="train", snapshot=7, fingerprint="digest", position=0)
    assert str(replace(stream, **changes)) == said


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        ({"latents_snapshots": (3, 4)}, {"latents_snapshots": [3, 4]}),
        ({"columns_snapshots": (("tags", 2), ("captions", 5))}, {"columns_snapshots": {"tags": 2, "captions": 5}}),
        ({"key_at": KeyAt.LAST_DOT}, {"key_at": "last_dot"}),
        ({"view": ViewState("snr > 20")}, {"view": {"definition": "snr > 20"}}),
        ({"view": ViewState("clean", 3)}, {"view": {"definition": "clean", "snapshot": 3}}),
        (
            {"view": ViewState("snr > 20", columns=(("captions", 5), ("tags", 2)))},
            {"view": {"definition": "snr > 20", "columns": {"captions": 5, "tags": 2}}},
        ),
    ],
)
def test_a_state_of_a_stream_holds_what_is_not_the_default_and_is_read_back(changes, fields):
    stream = replace(StreamState(name="a", split="train", snapshot=7, fingerprint="digest", position=9), **changes)
    written = stream.to_json()
    assert written == {
        "name": "a", "split": "train", "snapshot": 7, "fingerprint": "digest", "position": 9, **fields,
    }  # fmt: skip
    assert StreamState.from_json(json.loads(json.dumps(written))) == stream


@pytest.mark.parametrize("state", [None, [], "state", 3])
def test_a_value_that_is_not_a_dict_is_not_a_state(state):
    with pytest.raises(StateError, match=f"a dict, not {type(state).__name__}"):
        OrderState.from_json(state)
