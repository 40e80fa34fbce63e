"""Checks which kinds of values an object of a Lhotse manifest has, so that what reads it need not ask again. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Optional

from pydantic import BaseModel, BeforeValidator, Field, Strict, ValidationError

from headrace.errors import ConfigError
from headrace.pydantic_words import shown, wrong

_FORMS = ("constrained-float", "float", "list[constrained-float]", "list[float]")  # of a channel: pydantic names them
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def _with_score(item: object) -> object:
    """An item of an alignment, whose score may be missing. Raises `ValueError` for any other list or value."""
    if isinstance(item, list) and len(item) in {3, 4}:
        return [*item, None][:4]
    raise ValueError("expected [symbol, start, duration, score]")


_Aligned = Annotated[tuple[Any, _Number, _Number, Any], BeforeValidator(_with_score)]


class _Values(BaseModel):
    """The values of a recording, its sources, a supervision and a cut that are read; any may be missing or null."""

    start: _Number | None = None
    duration: _Number | None = None
    channel: _Number | list[_Number] | None = None
    channel_ids: list[_Number] | None = None
    channels: list[_Number] | None = None
    sources: list["_Values"] | None = None
    recording: Optional["_Values"] = None
    supervisions: list["_Values"] | None = None
    alignment: dict[str, list[_Aligned]] | None = None
    custom: dict[str, Any] | None = None


def check_values(content: Mapping[str, Any], place: str) -> None:
    """Raise `ConfigError` if an object has no id of text, or a value of another kind than Lhotse writes.

    Args:
        content: a recording, a supervision or a cut.
        place: its file and line, for the message.
    """
    if not isinstance(content.get("id"), str):
        raise ConfigError(f"{place}: expected an id of text")
    try:
        _Values.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        names = ".".join(str(part) for part in fault["loc"] if part not in _FORMS)
        raise ConfigError(f"{place}: {names}: {wrong(fault)}, found {shown(fault['input'])}") from error
