"""The paper host: what is downloaded, kept and waited for, from needs that are written down here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.simulated.host_model import Host, HostNeeds, ShardSize, play, working_set_bytes

TEN = [ShardSize(100, 10)] * 10

NEEDS = st.lists(
    st.dictionaries(st.integers(0, 9), st.integers(1, 10), min_size=1, max_size=4), min_size=1, max_size=30
).map(lambda batches: HostNeeds(TEN, [sorted(batch.items()) for batch in batches]))


def needs(*batches):
    """Batches that take one sample of each of some shards."""
    return HostNeeds(TEN, [[(shard, 1) for shard in batch] for batch in batches])


@pytest.mark.medium
@given(NEEDS, st.integers(0, 40))
def test_without_a_limit_each_shard_comes_once_and_nothing_waits_for_an_endless_line(needed, horizon):
    use = play(needed, Host(horizon, cold_batches=0, step_seconds=0.5))
    seen = {shard for batch in needed.batches for shard, _ in batch}
    assert use.num_shards == len(seen)
    assert use.num_bytes_downloaded == use.num_bytes == 100 * len(seen)
    assert use.num_bytes_again == use.num_bytes_ranged == 0
    assert use.wait_seconds == 0
    assert use.seconds == 0.5 * len(needed.batches)


@pytest.mark.medium
@given(NEEDS, st.integers(0, 40), st.integers(1, 1000))
def test_a_limit_below_a_shard_reads_all_by_ranges_and_one_above_everything_nothing(needed, horizon, limit):
    use = play(needed, Host(horizon, cold_batches=0, cache_limit_bytes=limit))
    assert use.num_bytes_downloaded - use.num_bytes_again <= use.num_bytes
    if limit < 100:
        assert use.num_bytes_downloaded == 0
        assert use.num_bytes_ranged == sum(10 * count for batch in needed.batches for _, count in batch)
    if limit >= use.num_bytes:
        assert (use.num_bytes_again, use.num_bytes_ranged) == (0, 0)


@pytest.mark.medium
@given(NEEDS, st.integers(0, 40), st.integers(10, 1000))
def test_the_line_never_brings_more_than_it_can(needed, horizon, speed):
    use = play(needed, Host(horizon, cold_batches=0, bytes_per_second=speed, step_seconds=0.1))
    assert use.seconds >= use.num_bytes_downloaded / speed - 1e-6
    assert use.seconds == pytest.approx(use.wait_seconds + 0.1 * len(needed.batches))


@given(NEEDS, st.integers(0, 40))
def test_the_working_set_is_between_a_batch_and_everything(needed, horizon):
    largest = max(100 * len(batch) for batch in needed.batches)
    everything = 100 * len({shard for batch in needed.batches for shard, _ in batch})
    assert largest <= working_set_bytes(needed, horizon) <= working_set_bytes(needed, horizon + 1) <= everything


def test_shards_that_come_one_after_the_other_need_room_for_what_is_in_sight():
    one_by_one = needs([0], [1], [2], [3], [4])
    assert working_set_bytes(one_by_one, 1) == 100
    assert working_set_bytes(one_by_one, 3) == 300


def test_a_shard_that_made_room_comes_again():
    use = play(needs([0], [1], [2], [0]), Host(1, cold_batches=0, cache_limit_bytes=200))
    assert (use.num_bytes_downloaded, use.num_bytes_again) == (400, 100)


def test_a_shard_in_sight_makes_no_room_and_the_other_is_read_by_ranges():
    use = play(needs([0, 1], [0, 1]), Host(2, cold_batches=0, cache_limit_bytes=100))
    assert (use.num_bytes_downloaded, use.num_bytes_ranged) == (100, 20)


def test_the_first_batches_do_not_wait_for_whole_shards():
    host = Host(2, cold_batches=1, bytes_per_second=100, step_seconds=1)
    use = play(needs([0], [0]), host)
    assert use.first_batch_seconds == pytest.approx(0.1)  # ten bytes of a hundred
    assert use.wait_seconds == pytest.approx(0.1)  # the shard comes while the first batch is worked on
    assert use.num_bytes_fetched == 110


def test_downloads_queue_and_batches_wait_for_their_own():
    use = play(needs([0], [1]), Host(2, cold_batches=0, bytes_per_second=100, step_seconds=0.25))
    assert use.first_batch_seconds == 1
    assert use.wait_seconds == pytest.approx(1.75)  # the second comes at 2 s; the first was done at 1.25
    assert use.wait_share == pytest.approx(1.75 / 2.25)


def fewest_downloads(uses, room):
    """The least number of downloads of any cache with room for some shards that takes in every used one."""
    states = {frozenset[int](): 0}
    for shard in uses:
        after: dict[frozenset[int], int] = {}
        for held, cost in states.items():
            if shard in held:
                choices = [(held, cost)]
            elif len(held) < room:
                choices = [(held | {shard}, cost + 1)]
            else:
                choices = [(held - {gone} | {shard}, cost + 1) for gone in held]
            for state, number in choices:
                after[state] = min(number, after.get(state, number))
        states = after
    return min(states.values())


def exactly(uses):
    """The distances of ten shards to their next uses, which are known exactly."""
    return lambda index: np.array(
        [next((n for n, used in enumerate(uses[index:]) if used == shard), np.inf) for shard in range(10)]
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=25), st.integers(1, 4))
def test_a_cache_that_knows_the_future_downloads_as_little_as_any_cache_can(uses, room):
    host = Host(1, cold_batches=0, cache_limit_bytes=100 * room)
    known = play(needs(*[[shard] for shard in uses]), host, exactly(uses))
    assert known.num_bytes_downloaded == 100 * fewest_downloads(uses, room)
    assert known.num_bytes_downloaded <= play(needs(*[[shard] for shard in uses]), host).num_bytes_downloaded


def test_shards_read_in_the_same_order_again_and_again_are_the_worst_case_of_the_last_use():
    uses = [shard for _ in range(5) for shard in range(10)]
    host = Host(1, cold_batches=0, cache_limit_bytes=500)
    batches = needs(*[[shard] for shard in uses])
    assert play(batches, host).num_bytes_again == 4 * 1000
    assert play(batches, host, exactly(uses)).num_bytes_again == pytest.approx(4 * 1000 * 5 / 9, rel=0.1)


def test_no_batches_ask_for_nothing():
    use = play(HostNeeds([], []), Host(4, bytes_per_second=1))
    assert (use.num_bytes, use.seconds, use.wait_share, use.shards_per_batch) == (0, 0, 0, 0)


def test_a_host_is_checked():
    with pytest.raises(ConfigError, match="step_seconds"):
        Host(1, step_seconds=-1)
