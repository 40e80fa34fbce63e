"""Cuts events to a part of a sample, and draws them on a grid of time.

Events are dicts with `start` and `end` in seconds of the sample; `label` says what they are, further keys are kept.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.arguments import convert, each, flag, number, text
from headrace.errors import ConfigError, SampleError
from headrace.format.typed_json import json_value

Event = dict[str, Any]
NOTHING = -1
"""Value of a cell of the grid that no event covers."""
_DECIMALS = 6  # of a place in cells: times are sums of floats, so further digits are noise
_NOISE_SECONDS = 1e-9
_MOST_SECONDS = sys.float_info.max
_MOST_LABEL = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Raster:
    """A grid of time on which the events of a column are drawn.

    Attributes:
        column: the column of events, a name in the metadata.
        hz: cells in a second.
        classes: labels, whose places are the values; empty for labels that are whole numbers, or for none.
        multi: whether a cell has all of its events instead of one of them.
    """

    column: str
    hz: float
    classes: tuple[str | int, ...] = ()
    multi: bool = False

    def __post_init__(self) -> None:
        convert(self, text, "column")
        convert(self, number, "hz")
        convert(self, _classes, "classes")
        convert(self, flag, "multi")
        if self.multi and not self.classes:
            raise ConfigError("multi=True is given without classes, which say how many values a cell has")

    @property
    def fill(self) -> int:
        """The value behind the end of a sample."""
        return 0 if self.multi else NOTHING

    def drawn(self, events: Sequence[Event], num_cells: int) -> NDArray[Any]:
        """The grid of a sample: int64 (T,), -1 where no event is; with `multi`, bool (T, C).

        A cell has the events in which its middle is, and events without a length that are in the cell; of several, the
        last one in the list.

        Args:
            events: events in seconds from the beginning of the grid.
            num_cells: T.

        Raises:
            SampleError: a label has no class.
        """
        shape, dtype = ((num_cells, len(self.classes)), np.bool_) if self.multi else ((num_cells,), np.int64)
        grid: NDArray[Any] = np.full(shape, self.fill, dtype)
        places: dict[object, int] = {label: place for place, label in enumerate(self.classes)}
        for event in events:
            start, end = (min(event[name] * self.hz, num_cells + 1.0) for name in ("start", "end"))  # maybe infinite
            value = self._value(event.get("label"), places)
            cell = math.floor(round(start, _DECIMALS))
            cells = slice(_first_middle(start), _first_middle(end)) if end > start else slice(cell, cell + 1)
            if self.multi:
                grid[cells, value] = True
            else:
                grid[cells] = value
        return grid

    def _value(self, label: object, places: Mapping[object, int]) -> int:
        if self.classes:
            if isinstance(label, str | int | float) and (place := places.get(label)) is not None:
                return place
            raise SampleError(
                f"an event of column {self.column!r} has the label {label!r}, which is not in classes: name all labels"
            )
        if label is None or (isinstance(label, int) and abs(label) <= _MOST_LABEL and label != NOTHING):
            return int(label or 0)
        raise SampleError(
            f"an event of column {self.column!r} has the label {label!r}, and no classes say its number: pass classes"
        )


def rasters_of(name: str, value: object) -> tuple[tuple[str, Raster], ...]:
    """Names of fields and their rasters, from a user's dict of dicts. Raises `ConfigError` for anything else."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{name} is {value!r}: expected names of fields, such as {{'chords': {{'column': …, 'hz': …}}}}"
        )
    return tuple((text(name, field), _raster(f"{name}[{field!r}]", given)) for field, given in value.items())


def events_of(value: object, column: str) -> list[Event]:
    """The events in the value of a column: a list of dicts, or its JSON; none for None.

    Raises:
        SampleError: the value is something else.
    """
    try:
        found = json_value(value) if isinstance(value, str) else value
    except ValueError:
        found = value
    if found is None:
        return []
    if isinstance(found, list) and all(map(_is_event, found)):
        return found
    raise SampleError(
        f"column {column!r} holds no events: expected a list of {{'start': seconds, 'end': seconds, …}}, none of which "
        f"ends before it starts, found {str(value)[:80]}"
    )


def cut_events(events: Sequence[Event], start: float, stop: float) -> list[Event]:
    """The events that are in a part of a sample, cut at its ends, in seconds from its beginning.

    >>> cut_events([{"start": 1, "end": 4, "label": "a"}, {"start": 5, "end": 6}], 2.0, 5.0)
    [{'start': 0.0, 'end': 2.0, 'label': 'a'}]
    """
    return [
        event | {"start": max(0.0, event["start"] - start), "end": max(0.0, min(event["end"], stop) - start)}
        for event in events
        if _is_met(event, start, stop)
    ]


def _is_met(event: Event, start: float, stop: float) -> bool:
    """Whether a part has something of an event; one without a length is in one of two parts that follow each other."""
    if event["end"] > event["start"]:
        return bool(event["start"] < stop and event["end"] > start)
    return bool(start - _NOISE_SECONDS <= event["start"] < stop - _NOISE_SECONDS)


def _first_middle(place: float) -> int:
    """The first cell whose middle is not before a place."""
    return max(0, math.ceil(round(place - 0.5, _DECIMALS)))


def _raster(name: str, value: object) -> Raster:
    if not isinstance(value, Mapping) or not {"column", "hz"} <= value.keys() <= {"column", "hz", "classes", "multi"}:
        raise ConfigError(f"{name} is {value!r}: expected {{'column': …, 'hz': …}}, and perhaps 'classes' and 'multi'")
    try:
        return Raster(**value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _classes(name: str, value: object) -> tuple[str | int, ...]:
    found = each(name, value, _label, "a list of labels")
    if len(set(found)) < len(found):
        raise ConfigError(f"{name} names a label twice: {list(found)}")
    return found


def _label(name: str, value: object) -> str | int:
    return value if isinstance(value, int) and not isinstance(value, bool) else text(name, value)


def _is_event(event: object) -> bool:
    if not isinstance(event, dict):
        return False
    start, end = event.get("start"), event.get("end")
    are_numbers = _is_number(start) and _is_number(end)  # without a generator: each window looks at all events
    return are_numbers and 0 <= start <= end <= _MOST_SECONDS  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_rasters(streams: Sequence[Sequence[tuple[str, Raster]]]) -> None:
    """Raise `ConfigError` if the rasters of streams differ in more than their columns."""
    forms = {tuple((name, raster.hz, raster.classes, raster.multi) for name, raster in sorted(one)) for one in streams}
    if len(forms) > 1:
        raise ConfigError(
            "rasters: the streams differ in names, hz, classes or multi: give all of them the same fields"
        )
