"""Partitions that are built together are consecutive, need the same work, and have not failed before."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.assemble.run_groups import grouped

LAYOUT = [f"train-{i:04d}" for i in range(12)]


def named(*numbers):
    return tuple(LAYOUT[number] for number in numbers)


def test_one_partition_per_run_is_a_run_for_each():
    assert grouped(dict.fromkeys(LAYOUT), LAYOUT, 1) == [(name,) for name in LAYOUT]


def test_consecutive_partitions_are_grouped_up_to_the_bound():
    assert grouped(dict.fromkeys(LAYOUT[:7]), LAYOUT, 3) == [named(0, 1, 2), named(3, 4, 5), named(6)]


def test_partitions_that_do_not_follow_each_other_are_apart():
    assert grouped(dict.fromkeys(named(0, 1, 3, 5, 6)), LAYOUT, 8) == [named(0, 1), named(3), named(5, 6)]


def test_partitions_with_other_work_are_apart():
    kinds = dict(zip(LAYOUT, ["all", "all", "latents", "latents"], strict=False))
    assert grouped(kinds, LAYOUT, 8) == [named(0, 1), named(2, 3)]


def test_a_partition_that_failed_is_alone():
    kinds = dict.fromkeys(named(0, 1, 2, 3, 4))
    assert grouped(kinds, LAYOUT, 8, alone=named(2)) == [named(0, 1), named(2), named(3, 4)]


def test_a_partition_that_is_not_in_the_layout_is_alone():
    assert grouped(dict.fromkeys((LAYOUT[0], "gone", LAYOUT[1])), LAYOUT, 8) == [named(0), ("gone",), named(1)]


@given(
    st.lists(st.sampled_from(LAYOUT), unique=True),
    st.integers(1, 5),
    st.sets(st.sampled_from(LAYOUT)),
    st.lists(st.sampled_from(["audio", "latents"]), min_size=12, max_size=12),
)
def test_each_partition_is_in_one_group_which_a_range_can_describe(names, most, alone, work):
    kinds = {name: work[LAYOUT.index(name)] for name in names}
    groups = grouped(kinds, LAYOUT, most, alone)
    assert [name for group in groups for name in group] == names
    for group in groups:
        first = LAYOUT.index(group[0])
        assert list(group) == LAYOUT[first : first + len(group)]
        assert len(group) <= most
        assert len({kinds[name] for name in group}) == 1
        assert len(group) == 1 or alone.isdisjoint(group)
