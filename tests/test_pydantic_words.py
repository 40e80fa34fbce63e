"""Pydantic's errors in the terms of YAML."""

import datetime as dt
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from headrace.pydantic_words import shown, wrong


def said(form, value):
    """The description of the error about a value."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(form).validate_python(value)
    return wrong(caught.value.errors()[0])


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (int, "many", "expected a whole number"),
        (int, 1.5, "expected a whole number"),
        (float, "fast", "expected a number"),
        (bool, "perhaps", "expected true or false"),
        (str, [], "expected text"),
        (str, 2026, "expected text; write it in quotes"),
        (str, dt.date(2026, 1, 2), "expected text; write it in quotes"),
        (list[int], "a", "expected a list: […]"),
        (dict[str, int], 1, "expected keys and values"),
        (Annotated[int, Field(ge=1)], 0, "expected at least 1"),
        (Annotated[float, Field(lt=1.0)], 2, "expected less than 1"),
        (Literal["a", "b"], "c", "expected a or b"),
    ],
)
def test_what_was_expected_is_said_without_words_of_python(form, value, expected):
    assert said(form, value) == expected


def test_the_message_of_a_validator_of_headrace_is_kept():
    class Even(BaseModel):
        size: int

        @field_validator("size")
        @classmethod
        def check(cls, size: int) -> int:
            raise ValueError("Use an even number")

    assert said(Even, {"size": 3}) == "use an even number"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "nothing"),
        (False, "false"),
        ("a", "'a'"),
        ({}, "no keys"),
        ({"a": 1, "b": 2}, "the keys a, b"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        ("x" * 200, f"'{'x' * 79}…"),
    ],
)
def test_a_value_is_shown_as_in_yaml_and_shortened(value, expected):
    assert shown(value) == expected
