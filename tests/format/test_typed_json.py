"""Every value of a JSON is compared with the type of its field."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest

from headrace.errors import FormatError
from headrace.format.typed_json import json_value, sample_json, shown, typed


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: Annotated[int, range(-5, 6)] = 0


@dataclass(frozen=True)
class Record:
    name: str
    points: tuple[Point, ...]
    pair: tuple[str, float]
    by_name: Mapping[str, int]
    colour: Colour | None = None
    is_live: bool = False
    more: Any = None
    made: list[int] = field(default_factory=list)


RECORD = Record("a", (Point(1), Point(2, -5)), ("b", 0.5), {"c": 3}, Colour.RED, True, {"d": [None]}, [7])


def content(**changes):
    return json.loads(json.dumps(asdict(RECORD))) | changes


def test_a_record_that_was_written_is_read_back():
    assert typed(Record, content()) == RECORD
    least = {"name": "a", "points": [], "pair": ["b", 1], "by_name": {}}
    assert typed(Record, least) == Record("a", (), ("b", 1), {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "name: expected text, found 3"),
        ({"name": "\ud800"}, "name: "),
        ({"points": {}}, "points: expected a list, found an object of 0"),
        ({"points": [{"x": 1, "y": 6}]}, "points: y: expected a whole number from -5 to 5, found 6"),
        ({"points": [{"x": True}]}, "points: x: expected a whole number from 0 to 9223372036854775807, found True"),
        ({"points": [{"x": 1.0}]}, "points: x: expected a whole number"),
        ({"points": [{"x": 1 << 63}]}, "points: x: expected a whole number"),
        ({"points": [{}]}, "points: expected the fields x, y; missing or unknown: 'x'"),
        ({"points": [{"x": 1, "z": 1}]}, "points: expected the fields x, y; missing or unknown: 'z'"),
        ({"pair": ["b"]}, "pair: expected a list of 2, found a list of 1"),
        ({"pair": ["b", float("inf")]}, "pair: expected a finite number, found inf"),
        ({"pair": ["b", True]}, "pair: expected a finite number, found True"),
        ({"by_name": [1]}, "by_name: expected an object, found a list of 1"),
        ({"by_name": {"c": None}}, "by_name: expected a whole number"),
        ({"colour": "blue"}, "colour: "),
        ({"is_live": 1}, "is_live: expected true or false, found 1"),
        ({"more": "\ud800"}, "more: "),
        ({"made": None}, "made: expected a list, found None"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_its_field(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        typed(Record, content(**changes))


def test_json_that_is_nested_too_deeply_is_not_valid():
    assert json_value(b'{"a": [1]}') == {"a": [1]}
    for text in ("{", "[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            json_value(text)


def test_values_are_shown_in_a_few_characters():
    values = [[1, 2], {}, 10**100, None, True]
    assert [shown(value) for value in values] == ["a list of 2", "an object of 0", "1e+100", "None", "True"]
    assert shown("x" * 100) == f"'{'x' * 59}…"


DEEP = b"[" * 100_000 + b"]" * 100_000
NOT_SAMPLES = {
    "cut off": (b'{"a": ', "Expecting value"),
    "not UTF-8": (b'{"a": "\xff"}', "can't decode"),
    "too deep": (DEEP, "brackets are nested too deeply"),
    "a list": (b"[1]", "expected an object, found a list of 1"),
    "facts are text": (b'{"headrace": "x"}', "expected an object, found 'x'"),
}


@pytest.mark.parametrize("case", NOT_SAMPLES)
def test_the_json_of_a_sample_is_an_object_or_an_error_that_names_the_sample(case):
    text, words = NOT_SAMPLES[case]
    with pytest.raises(FormatError, match=rf"s\.tar: sample 'k': its \.json is not valid \(.*{words}"):
        sample_json(text, "s.tar", "k")


def test_the_json_of_a_sample_is_read():
    assert sample_json(b'{"headrace": {"a": 1}, "b": 2}', "s.tar", "k") == {"headrace": {"a": 1}, "b": 2}
