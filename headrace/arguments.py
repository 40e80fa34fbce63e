"""Checks single arguments of the public interface and converts them to plain Python values.

A wrong value raises a `ConfigError` that begins with the argument's name. A numpy number becomes a plain number, so
that it never reaches a saved state. How arguments fit together is checked by the callers.
"""

import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from headrace.errors import ConfigError

T = TypeVar("T")
P = ParamSpec("P")
_BYTE_UNITS = {"": 1, "b": 1} | {
    prefix + unit: 1024**power for power, prefix in enumerate("kmgtpe", 1) for unit in ("b", "ib")
}


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """A whole number, also of a numpy type, as a plain int.

    Raises:
        ConfigError: the value is not a whole number (4.0 and True are not), or is less than `least`.
    """
    number = _index(value)
    if number is None or (least is not None and number < least):
        raise _error(name, value, "a whole number" if least is None else f"a whole number, at least {least}")
    return number


def number(name: str, value: object, *, least: float | None = None) -> float:
    """A finite number, also of a numpy type, as a plain float: at least `least`, or above 0 if `least` is None.

    Raises:
        ConfigError: the value is not such a number.
    """
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        # A float32 is read as the decimal number that it prints: 0.1 and not 0.10000000149.
        found = float(str(value)) if isinstance(value, np.floating) else float(value)
        if math.isfinite(found) and (found > 0 if least is None else found >= least):
            return found
    raise _error(name, value, "a finite number above 0" if least is None else f"a finite number, at least {least}")


def flag(name: str, value: object) -> bool:
    """True or False; 1 and 0 are accepted as well.

    Raises:
        ConfigError: the value is something else, such as "no", which Python treats as true.
    """
    if not isinstance(value, int | np.bool_) or value not in (0, 1):  # bool is an int
        raise _error(name, value, "True or False")
    return bool(value)


def text(name: str, value: object) -> str:
    """A string. Raises `ConfigError` for another value."""
    return instance(name, value, str, "a string")


def path(name: str, value: object) -> str:
    """A path or URL as a string. Raises `ConfigError` for another value."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise _error(name, value, "a path or URL, without NUL characters")
    return found


def one_of(name: str, value: object, *known: str) -> str:
    """One of the strings `known`. Raises `ConfigError` for another value; the message lists the strings."""
    if not isinstance(value, str) or value not in known:
        raise _error(name, value, f"one of {', '.join(repr(str(word)) for word in known)}")
    return value


def instance(name: str, value: object, kind: type[T], expected: str) -> T:
    """A value of the class `kind`. Raises `ConfigError` for another value; the message says what was `expected`."""
    if not isinstance(value, kind):
        raise _error(name, value, expected)
    return value


def function(name: str, value: object) -> Callable[..., Any]:
    """A callable. Raises `ConfigError` for another value."""
    if not callable(value):
        raise _error(name, value, "a function")
    return value


def each(name: str, value: object, check: Callable[[str, object], T], expected: str) -> tuple[T, ...]:
    """Apply a check to each item of a list and return the results.

    Raises:
        ConfigError: the value is not a list (a string is not, although it has items), or the check rejects an item.
    """
    if isinstance(value, str | os.PathLike | Mapping) or not isinstance(value, Iterable):
        raise _error(name, value, expected)
    return tuple(check(f"{name}[{place}]", member) for place, member in enumerate(value))


def optional(check: Callable[Concatenate[str, object, P], T]) -> Callable[Concatenate[str, object, P], T | None]:
    """Make a check of an argument accept None as well.

    >>> optional(whole)("crop_frames", None, least=1)
    """

    def checked(name: str, value: object, /, *args: P.args, **limits: P.kwargs) -> T | None:
        return None if value is None else check(name, value, *args, **limits)

    return checked


def convert(config: object, check: Callable[..., object], *fields: str, called: str = "", **limits: object) -> None:
    """Replace fields of a frozen dataclass by the results of a check. For use in its `__post_init__`.

    Raises:
        ConfigError: the check rejects a field. The message names the field, or the argument `called`.
    """
    for field in fields:
        object.__setattr__(config, field, check(called or field, getattr(config, field), **limits))


def parse_bytes(size: int | str | None, name: str = "cache_limit") -> int | None:
    """A number of bytes from 1000, "100b", "64kb", "50gb" or "50GiB" (1024s, case-free); None stays None.

    >>> parse_bytes("1.5kb"), parse_bytes("2 GiB"), parse_bytes("7")
    (1536, 2147483648, 7)

    Raises:
        ConfigError: it is not such a size, or not positive.
    """
    if size is None:
        return None
    match = re.fullmatch(r"\s*([0-9._]+)\s*([a-z]*)\s*", str(size).lower())
    try:
        found = int(float(match[1]) * _BYTE_UNITS[match[2]]) if match else 0
    except (KeyError, ValueError):
        found = 0
    if found < 1:
        raise ConfigError(f"{name} {size!r}: expected a number of bytes such as 1000000, '64kb' or '50GiB'")
    return found


def position(kind: str, value: object) -> int:
    """A position of a sample or shard as a plain int; it may be negative.

    Raises:
        TypeError: the value is not a whole number. (A list raises the same error for such an index.)
    """
    found = _index(value)
    if found is None:
        raise TypeError(f"{kind} {value!r}: expected one whole number")
    return found


def _index(value: Any) -> int | None:  # noqa: ANN401 - any value from a user
    """A whole number as a plain int; None if the value is not one."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _error(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{name} is {value!r}: expected {expected}")
