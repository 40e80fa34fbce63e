"""`kind: custom`: a function or a class that the user wrote, named by `module:object` (the setting `feature`).

It is called as `object(audio, sample_rate_hz)` for each sample, with float32 (channels, frames), and returns a dict
with a value for each of its `columns`. A class is first called with the other settings of the YAML entry. Attributes of
the function or class say `columns` (name → `float`, `int`, `bool`, `text`, `json` or `intervals`) and `fingerprint`, a
text that changes whenever the results do; and if it wants, `sample_rate_hz`, `num_channels` and `is_concurrent`.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.encoders.settings import digest
from headrace.errors import BuildError, ConfigError
from headrace.features.protocol import Audio

_SETTING = "feature"


class CustomFeature:
    """A `Feature` around the user's function or object."""

    def __init__(self, name: str, found: Any, settings: Mapping[str, object]) -> None:  # noqa: ANN401
        self._name, self.columns = name, _columns(name, found)
        self._call = _made(name, found, settings) if isinstance(found, type) else found
        if not callable(self._call):
            raise ConfigError(f"feature custom: {name} cannot be called with audio; give its class __call__")
        self.sample_rate_hz = getattr(self._call, "sample_rate_hz", None)
        self.num_channels = getattr(self._call, "num_channels", None)
        self.is_concurrent = bool(getattr(self._call, "is_concurrent", False))

    def measure(self, audio: Audio, sample_rate_hz: int) -> Mapping[str, Any]:
        """See `Feature`.

        Raises:
            BuildError: the user's code raises an error, or its result has other columns or values of other types.
        """
        try:
            found = dict(self._call(audio, sample_rate_hz))
        except Exception as error:
            raise BuildError(f"feature custom: {self._name} raised {type(error).__name__}: {error}") from error
        if found.keys() != self.columns.keys():
            raise BuildError(
                f"feature custom: {self._name} returned {', '.join(map(str, found)) or 'nothing'}; expected its "
                f"columns {', '.join(self.columns)} (None for a value that does not exist)"
            )
        return {name: self._value(name, kind, found[name]) for name, kind in self.columns.items()}

    def _value(self, name: str, kind: str, value: object) -> Any:  # noqa: ANN401 - a value of any type
        try:
            return None if value is None else _FORMS[kind](value)
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise BuildError(
                f"feature custom: {self._name}: column {name}: expected {kind}, found {value!r}"
            ) from error


def check(settings: Mapping[str, object]) -> None:
    """See `headrace.features.check`. The user's module is not imported."""
    name = settings.get(_SETTING)
    module, _, attribute = str(name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(f'feature custom: {_SETTING} must be "module:object", found {name!r}')


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.features.fingerprint`. A class is not called."""
    name, found, own = _found(settings)
    text = getattr(found, "fingerprint", None)
    if not text or not isinstance(text, str):
        raise ConfigError(f"feature custom: {name} needs an attribute fingerprint, a text, found {text!r}")
    return digest(name, text, json.dumps(_columns(name, found)), json.dumps(own, sort_keys=True, default=str))


def load(settings: Mapping[str, object]) -> CustomFeature:
    """See `headrace.features.load`."""
    return CustomFeature(*_found(settings))


def _found(settings: Mapping[str, object]) -> tuple[str, Any, dict[str, object]]:
    """Name of the user's object, the object, and the settings to call it with."""
    check(settings)
    name = str(settings[_SETTING])
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        words = f"importing it raised {type(error).__name__}: {error}"
        raise ConfigError(f"feature custom: {name}: {words}; is its folder on PYTHONPATH?") from error
    own = {key: value for key, value in settings.items() if key != _SETTING}
    if own and not isinstance(found, type):
        raise ConfigError(f"feature custom: {name} is no class, so it takes no settings; remove {', '.join(own)}")
    return name, found, own


def _made(name: str, found: Any, settings: Mapping[str, object]) -> Any:  # noqa: ANN401
    try:
        return found(**settings)
    except Exception as error:
        raise ConfigError(f"feature custom: {name}: calling it raised {type(error).__name__}: {error}") from error


def _columns(name: str, found: Any) -> dict[str, str]:  # noqa: ANN401
    columns = getattr(found, "columns", None)
    if not isinstance(columns, Mapping) or not columns or not all(kind in _FORMS for kind in columns.values()):
        raise ConfigError(
            f"feature custom: {name} needs an attribute columns, name → {', '.join(_FORMS)}; found {columns!r}"
        )
    return {str(column): str(kind) for column, kind in columns.items()}


def _whole(value: Any) -> int:  # noqa: ANN401
    if isinstance(value, bool | np.bool_) or int(value) != value or not -(2**63) <= value < 2**63:
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError(value)
    return float(value)


def _flag(value: Any) -> bool:  # noqa: ANN401
    if not isinstance(value, bool | np.bool_):
        raise TypeError(value)
    return bool(value)


def _text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()  # a half of a pair of UTF-16 has no UTF-8
    return value


def _json(value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, list | dict):
        raise TypeError(value)
    return json.loads(_text(json.dumps(value, allow_nan=False, ensure_ascii=False)))


def _intervals(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    found = [{**one, "start": float(one["start"]), "end": float(one["end"])} for one in value]
    if not all(0 <= one["start"] <= one["end"] < float("inf") for one in found):
        raise ValueError(value)
    return list(_json(found))


_FORMS: dict[str, Callable[[Any], Any]] = {
    "float": _number,
    "int": _whole,
    "bool": _flag,
    "text": _text,
    "json": _json,
    "intervals": _intervals,
}
