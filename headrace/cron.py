"""Checking cron expressions of five fields, so that a wrong one is a fault of a YAML file and not of a scheduler.

Owns the grammar that is understood everywhere (crontab(5)): numbers, names of months and days, ranges, steps, lists.
"""

import re

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month
_PART = re.compile(r"(?:(?P<any>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d+))?")


def checked_cron(text: str) -> str:
    """The expression as it is.

    Raises:
        ValueError: it is none; names the field, what is wrong with it, and what is expected.
    """
    fields = text.split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(name for name, *_ in _FIELDS)
        raise ValueError(f"a cron expression has five fields ({names}), such as '0 3 * * *'")
    for field, (name, least, most, words) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if not _is_part(part, least, most, words):
                known = f", or names ({', '.join(words)})" if words else ""
                raise ValueError(
                    f"cron: the {name} is {field!r}, expected numbers from {least} to {most}{known}, ranges 1-5, steps "
                    "*/2, lists 1,3, or *"
                )
    _check_day(*fields[2:4])
    return text


def _check_day(days: str, months: str) -> None:
    """Raises `ValueError` for a day that never comes: with one, schedulers fail for all data sets."""
    longest = max(_LONGEST[number - 1] for part in months.split(",") for number in _values(part, 1, 12, _MONTHS))
    least = min(number for part in days.split(",") for number in _values(part, 1, 31, {}))
    if least > longest:
        raise ValueError(f"cron: the month {months!r} has no day {least}: name one that comes")


def _values(part: str, least: int, most: int, words: dict[str, int]) -> range | list[int]:
    """What a part that is right stands for; 'nov-feb' goes over the year's end, and a step of '*' keeps the first."""
    match = _PART.fullmatch(part.lower())
    if match is None or match["any"]:
        return range(least, most + 1)
    first = _number(match["first"], words) or least
    last = _number(match["last"] or (str(most) if match["step"] else match["first"]), words) or most
    numbers = [*range(first, last + 1)] if first <= last else [*range(first, most + 1), *range(least, last + 1)]
    return numbers[:: int(match["step"] or 1)]


def _is_part(part: str, least: int, most: int, words: dict[str, int]) -> bool:
    match = _PART.fullmatch(part.lower())
    if match is None or (match["step"] is not None and int(match["step"]) == 0):
        return False
    if match["any"]:
        return True
    ends = [_number(end, words) for end in (match["first"], match["last"] or match["first"])]
    return all(end is not None and least <= end <= most for end in ends)


def _number(text: str, words: dict[str, int]) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else words.get(text)
