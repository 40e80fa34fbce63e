"""When a failed request is retried, and when retries end."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.stores.retry_policy import RetryPolicy

draws = st.floats(0, 1, exclude_max=True)
seconds = st.floats(0, 1000)


@given(st.integers(0, 10), st.integers(1, 20), seconds, draws)
def test_a_number_of_attempts_is_not_limited_by_time(number, attempt, elapsed, draw):
    assert (RetryPolicy(number).pause(attempt, elapsed, draw) is None) == (attempt > number)


@given(st.integers(1, 10**9), seconds, draws)
def test_a_window_ends_by_time_only_and_its_last_attempt_is_made_at_its_end(attempt, elapsed, draw):
    pause = RetryPolicy(window_seconds=100).pause(attempt, elapsed, draw)
    assert (pause is None) == (elapsed >= 100)
    assert pause is None or 0 < pause <= 100 - elapsed


@given(st.integers(1, 10**9), draws)
def test_pauses_double_up_to_a_maximum_and_are_shortened_by_at_most_half_at_random(attempt, draw):
    full, least = RetryPolicy().pause(attempt, 0, 1), RetryPolicy().pause(attempt, 0, 0)
    assert full == min(5, 0.1 * 2 ** min(attempt - 1, 20))
    assert least == full / 2
    assert least <= RetryPolicy().pause(attempt, 0, draw) <= full


@given(st.integers(1, 9), st.floats(0, 99), draws, seconds)
def test_a_requested_pause_is_added_up_to_the_length_of_the_window(attempt, elapsed, draw, asked):
    for retries in (RetryPolicy(9, 100), RetryPolicy(None, 100)):
        usual = retries.pause(attempt, elapsed, draw)
        assert retries.pause(attempt, elapsed, draw, asked) == usual + min(asked, 100)
