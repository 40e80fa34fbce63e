"""An error about the YAML is one line: the key, what was expected, what was found."""

import pytest
from pydantic import Field, ValidationError

from headrace.config.error_lines import error_line
from headrace.config.section import Section


class Balance(Section):
    alpha: float = Field(ge=0)


class Entry(Section):
    name: str
    balance: Balance | None = None


class Address(Section):
    webhook: str = Field("", max_length=3)
    email_from: str = Field("", max_length=3)


class Root(Section):
    name: str = Field("a", pattern="^[a-z]+$")
    count: int = 5
    entries: tuple[Entry, ...] = ()
    views: dict[str, Balance] = Field(default_factory=dict)
    alerts: Address = Address()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"cuont": 1}, "cuont: unknown key; did you mean count? the keys here are alerts, count, entries, views"),
        ({"views": {"new": {"beta": 1, "alpha": 1}}}, "views.new.beta: unknown key; the keys here are alpha"),
        ({"entries": [{}]}, "entries[0].name: missing; this key is required"),
        (
            {"entries": [{"name": "x", "balance": {"alpha": -1}}]},
            "entries[0] (x).balance.alpha: expected at least 0; found -1",
        ),
        ({"entries": [{"name": "x", "balance": 7}]}, "such as {alpha: …}; found 7"),
        ({"views": 7}, "views: expected keys and values, such as {clean: …}; found 7"),
        ({"count": None}, "remove the key to use its default; found nothing"),
        ({"name": "A1"}, "the data set is named after the file"),
        ({"alerts": {"email_from": "abcd"}}, "found 'abcd'"),
    ],
)
def test_the_line_names_key_expectation_and_value(content, line):
    with pytest.raises(ValidationError) as error:
        Root(**content)
    (fault,) = error.value.errors()
    assert line in error_line(fault, Root, content)


def test_a_value_that_may_be_a_secret_is_not_shown():
    content = {"alerts": {"webhook": "secret"}}
    with pytest.raises(ValidationError) as error:
        Root(**content)
    assert "secret" not in error_line(error.value.errors()[0], Root, content)
