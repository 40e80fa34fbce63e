"""The times of a cron schedule.

Uses: `cron_string_iterator`, which Dagster's own schedules tick by.
Why: a freshness policy needs the longest pause between two ticks of a schedule.
Missing: a public iterator over the ticks of a schedule. `FreshnessPolicy.cron` takes a cron string, but has no window
that warns before it fails.
Fails first: `test_the_catalog_alone_has_a_policy_and_it_follows_the_refresh` (tests/assets/test_catalog.py).
"""

from itertools import islice, pairwise
from typing import TYPE_CHECKING

from dagster._utils.schedules import cron_string_iterator  # noqa: TID251 - see above

if TYPE_CHECKING:
    from datetime import timedelta

_A_FRIDAY = 1_709_251_200.0  # the pause of a weekend is among the first
_NUM_TICKS = 400  # more than a year of nights


def longest_pause(cron: str, time_zone: str) -> "timedelta":
    """The longest time between two ticks of a schedule, of several hundred."""
    ticks = islice(cron_string_iterator(_A_FRIDAY, cron, time_zone), _NUM_TICKS)
    return max(later - tick for tick, later in pairwise(ticks))
