"""The times of a cron schedule.

Uses: `cron_string_iterator`, which Dagster's own schedules tick by.
Why: a freshness policy needs the longest pause between two ticks of a schedule.
Missing: a public iterator over the ticks of a schedule. `FreshnessPolicy.cron` takes a cron string, but has no window
that warns before it fails.
Fails first: `test_the_catalog_alone_has_a_policy_and_it_follows_the_refresh` (tests/assets/test_catalog.py).
"""

from datetime import datetime, timedelta
from itertools import chain, islice, pairwise, takewhile

from dagster._utils.schedules import cron_string_iterator  # noqa: TID251 - see above

_A_FRIDAY = 1_709_251_200.0  # the pause of a weekend is among the first
_NUM_TICKS = 400  # more than a year of nights


def longest_pause(cron: str, time_zone: str) -> timedelta:
    """The longest time between two ticks of a schedule: of several hundred, and around its longest pause in days."""
    days = islice(cron_string_iterator(_A_FRIDAY, f"0 0 {' '.join(cron.split()[2:])}", time_zone), _NUM_TICKS)
    day, next_day = max(pairwise(days), key=_pause)
    first = islice(cron_string_iterator(_A_FRIDAY, cron, time_zone), _NUM_TICKS)
    of_days = cron_string_iterator(day.timestamp(), cron, time_zone)  # at most 1,440 ticks a day
    around = takewhile(lambda tick: tick < next_day + timedelta(days=1), of_days)
    return max(map(_pause, chain(pairwise(first), pairwise(around))))


def _pause(ticks: tuple[datetime, datetime]) -> timedelta:
    return ticks[1] - ticks[0]
