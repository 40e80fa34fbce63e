"""Describes pydantic's errors about single values in the terms of YAML instead of Python, and formats values as YAML.

`wrong` says what was expected, `shown` formats the value that was found. The callers add the key.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

_SHOWN = 80

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "invalid_key": "text",
    "string_too_short": "text that is not empty",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "list_type": "a list: […]",
    "tuple_type": "a list: […]",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
_AS_TEXT = {"string_type", "invalid_key"}


def wrong(fault: Mapping[str, Any]) -> str:
    """Say what was expected, as "expected …"; for an error of one of Headrace's validators, return its message.

    Args:
        fault: pydantic's `ErrorDetails`.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    if kind not in _EXPECTED:
        message = str(fault["msg"]).removeprefix("Value error, ")
        return message[0].lower() + message[1:]
    expected = _EXPECTED[kind].format(**{name: _bare(value) for name, value in context.items()})
    is_plain = isinstance(fault["input"], int | float | dt.date)
    quotes = "; write it in quotes" if kind in _AS_TEXT and is_plain else ""
    return f"expected {expected}{quotes}"


def shown(value: object) -> str:
    """A value roughly as in YAML, shortened.

    >>> shown(None), shown(True), shown("a"), shown({"name": "crepe"}), shown([1, 2])
    ('nothing', 'true', "'a'", 'the keys name', '[1, 2]')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"the keys {', '.join(map(str, value))}" if value else "no keys"
    text = value.isoformat() if isinstance(value, dt.date) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _bare(value: object) -> str:
    """A limit or a choice without Python's quotes and ".0"."""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")
