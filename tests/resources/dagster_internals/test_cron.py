"""The longest pause of a schedule, however many ticks come before it."""

from datetime import timedelta

import pytest

from headrace_dagster.resources.dagster_internals.cron import longest_pause

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("cron", "pause"),
    [
        ("0 3 * * *", DAY),
        ("0 3 * * 7", 7 * DAY),
        ("0 3 * * 1-5", 3 * DAY),
        ("0 3 * * sat,7", 6 * DAY),
        ("*/10 8-17 * * 1-5", 2 * DAY + 14 * HOUR + 10 * MINUTE),
        ("*/2 * * * 1-5", 2 * DAY + 2 * MINUTE),
        ("* * * * fri", 6 * DAY + MINUTE),
        ("* 0-11,13-23 * * *", HOUR + MINUTE),
        ("* * * * *", MINUTE),
        ("*/5 * 1 * *", 30 * DAY + 5 * MINUTE),
        ("* * 1 * *", 30 * DAY + MINUTE),
        ("* * * 6 *", 336 * DAY + MINUTE),
        ("0 0 31 * *", 61 * DAY),
        ("0 3 29 2 *", 2921 * DAY),
    ],
)
def test_the_longest_pause_is_found_behind_any_number_of_ticks(cron, pause):
    assert longest_pause(cron, "UTC") == pause
