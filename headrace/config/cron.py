"""Validates cron expressions of five fields, so that an error in one is reported for its YAML file and key.

The grammar is that of crontab(5): numbers, names of months and days, ranges, steps, lists. croniter would be a
dependency of training jobs for this alone, its copy inside Dagster is private, and its errors do not name the field.
"""

import re
from typing import NamedTuple


class _Field(NamedTuple):
    """A field of an expression: its name, its smallest and largest number, and the names of some numbers."""

    name: str
    least: int
    most: int
    words: dict[str, int]


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTH_NAMES, 1)}),
    _Field("day of the week", 0, 7, {name: number for number, name in enumerate(_DAY_NAMES)}),
)
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:(?P<any>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d+))?")


def checked_cron(text: str) -> str:
    """The expression, unchanged.

    Raises:
        ValueError: the expression is invalid; the message names the field and what is expected there.
    """
    fields = text.split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"a cron expression has five fields ({names}), such as '0 3 * * *'")
    _, _, days, months, _ = (_numbers(found, field) for found, field in zip(fields, _FIELDS, strict=True))
    if min(days) > max(_DAYS_OF_MONTHS[month - 1] for month in months):  # Dagster would fail for all data sets
        raise ValueError(f"cron: the month {fields[3]!r} has no day {min(days)}; use a day that exists")
    return text


def _numbers(text: str, field: _Field) -> list[int]:
    """All numbers that a field's text selects. Raises `ValueError` if the text is invalid."""
    parts = [_numbers_of_part(part, field) for part in text.lower().split(",")]
    if not all(parts):
        names = f", or names ({', '.join(field.words)})" if field.words else ""
        raise ValueError(
            f"cron: the {field.name} is {text!r}, expected numbers from {field.least} to {field.most}{names}, ranges "
            "1-5, steps */2, lists 1,3, or *"
        )
    return [number for part in parts for number in part]


def _numbers_of_part(part: str, field: _Field) -> list[int]:
    """The numbers of one part of a list, such as `2-8/2`; empty if it is invalid. `nov-feb` includes December."""
    match = _PART.fullmatch(part)
    step = int((match and match["step"]) or 1)
    if match is None or step == 0:
        return []
    until = str(field.most) if match["step"] else match["first"]
    ends = (field.least, field.most) if match["any"] else (match["first"], match["last"] or until)
    first, last = (end if isinstance(end, int) else _number(end, field) for end in ends)
    if first is None or last is None:
        return []
    wraps = [*range(first, field.most + 1), *range(field.least, last + 1)]
    return ([*range(first, last + 1)] if first <= last else wraps)[::step]


def _number(text: str, field: _Field) -> int | None:
    """A number or a name as a number; None if it is not one of the field's."""
    number = int(text) if text.isascii() and text.isdigit() else field.words.get(text)
    return number if number is not None and field.least <= number <= field.most else None
