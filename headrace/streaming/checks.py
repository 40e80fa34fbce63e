"""What a user's argument must be: a plain Python value of the right type and range, or an error that names it.

Owns the checks of single values where they enter, so that a numpy number never reaches a saved state and a wrong type
fails by the argument's name instead of far inside. Must not know which arguments there are, nor how they fit together.
"""

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from headrace.errors import ConfigError

T = TypeVar("T")
P = ParamSpec("P")


def whole(name: str, value: object, *, least: int | None = None) -> int:
    """A whole number, from numpy too, as a plain int.

    Raises:
        ConfigError: it is none (4.0 is none, nor is True), or less than `least`.
    """
    number = _index(value)
    if number is None or (least is not None and number < least):
        raise _refused(name, value, "a whole number" if least is None else f"a whole number, at least {least}")
    return number


def number(name: str, value: object, *, least: float | None = None) -> float:
    """A finite number, from numpy too, as a plain float: at least `least`, or above 0 without it.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        # A float32 stands for the decimal number that it shows, as the weights of streams are read.
        found = float(str(value)) if isinstance(value, np.floating) else float(value)
        if math.isfinite(found) and (found > 0 if least is None else found >= least):
            return found
    raise _refused(name, value, "a finite number above 0" if least is None else f"a finite number, at least {least}")


def flag(name: str, value: object) -> bool:
    """True or False, or 1 or 0 in their place.

    Raises:
        ConfigError: it is something else, such as "no", which counts as true.
    """
    if not isinstance(value, int | np.bool_) or value not in (0, 1):  # bool is an int
        raise _refused(name, value, "True or False")
    return bool(value)


def text(name: str, value: object) -> str:
    """A string. Raises `ConfigError` otherwise."""
    return instance(name, value, str, "a string")


def path(name: str, value: object) -> str:
    """A path or URL, as a string. Raises `ConfigError` otherwise."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str) or not found:
        raise _refused(name, value, "a path or URL")
    return found


def instance(name: str, value: object, kind: type[T], expected: str) -> T:
    """The value, which is a `kind`. Raises `ConfigError`, saying what was `expected`, otherwise."""
    if not isinstance(value, kind):
        raise _refused(name, value, expected)
    return value


def function(name: str, value: object) -> Callable[..., Any]:
    """What can be called. Raises `ConfigError` otherwise."""
    if not callable(value):
        raise _refused(name, value, "a function")
    return value


def each(name: str, value: object, check: Callable[[str, object], T], expected: str) -> tuple[T, ...]:
    """What a check makes of each member of a list.

    Raises:
        ConfigError: it is no list, but a string, say, whose letters would be taken for members; or the check refuses
            one.
    """
    if isinstance(value, str | os.PathLike | Mapping) or not isinstance(value, Iterable):
        raise _refused(name, value, expected)
    return tuple(check(f"{name}[{place}]", member) for place, member in enumerate(value))


def optional(check: Callable[Concatenate[str, object, P], T]) -> Callable[Concatenate[str, object, P], T | None]:
    """The same check, for an argument that may be None.

    >>> optional(whole)("crop_frames", None, least=1)
    """

    def checked(name: str, value: object, /, *args: P.args, **limits: P.kwargs) -> T | None:
        return None if value is None else check(name, value, *args, **limits)

    return checked


def convert(config: object, check: Callable[..., object], *fields: str, called: str = "", **limits: object) -> None:
    """Put what a check makes of them in place of fields of a frozen dataclass, as its `__post_init__` may.

    Raises:
        ConfigError: the check refuses one; names it, or the argument that it is `called` by.
    """
    for field in fields:
        object.__setattr__(config, field, check(called or field, getattr(config, field), **limits))


def position(kind: str, value: object) -> int:
    """A plain int to find the sample or shard of that number by, negative ones too.

    Raises:
        TypeError: it is no whole number; as of a list's index.
    """
    found = _index(value)
    if found is None:
        raise TypeError(f"{kind} {value!r}: expected one whole number")
    return found


def _index(value: Any) -> int | None:  # noqa: ANN401 - whatever a user gave
    """A plain int; None for what is no whole number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _refused(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{name} is {value!r}: expected {expected}")
