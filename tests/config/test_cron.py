"""Which cron expressions are valid, and the errors about the others."""

# ruff: noqa: TID251

import pytest
from dagster._utils.schedules import get_smallest_cron_interval, is_valid_cron_schedule

from headrace.config.cron import checked_cron


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "0 3 * * *",
        "*/5 0-6 1,15 * 1-5",
        "0 0 1 jan sun",
        "0 4 * * 7",
        "5-50/15 * * MAR-OCT mon,wed",
        " 0 3  * * * ",
        "0 3 29 2 *",
        "0 3 31 4-6 *",
        "0 3 31 */2 *",
        "0 3 31 2/2 *",
        "0 3 31 nov-feb *",
        "0 3 28,31 feb *",
        "0 3 30-2 feb *",
    ],
)
def test_valid_expressions_are_those_that_dagster_accepts(text):
    assert checked_cron(text) == text
    assert is_valid_cron_schedule(text.strip())
    assert get_smallest_cron_interval(text.strip())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 3 * *", "five fields"),
        ("", "five fields"),
        ("99 3 * * *", "the minute is '99', expected numbers from 0 to 59"),
        ("0 24 * * *", "the hour is '24'"),
        ("0 0 0 * *", "the day of the month is '0'"),
        ("0 0 * 13 *", "the month is '13', expected numbers from 1 to 12, or names"),
        ("0 0 * * 8", "the day of the week is '8'"),
        ("0 0 * * day", "the day of the week is 'day'"),
        ("*/0 * * * *", "the minute is"),
        ("1, * * * *", "the minute is"),
        ("a b c d e", "the minute is 'a'"),
        ("0 3 30 2 *", "the month '2' has no day 30"),
        ("0 3 31 apr,6 *", "the month 'apr,6' has no day 31"),
        ("0 3 31 4 1", "no day 31"),
        ("0 3 30/1 feb *", "no day 30"),
    ],
)
def test_errors_name_the_invalid_part(text, says):
    with pytest.raises(ValueError, match=says):
        checked_cron(text)
