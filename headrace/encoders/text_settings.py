"""Settings of `kind: text`, and what the configuration of its model says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headrace.encoders import settings as forms
from headrace.errors import ConfigError, IntegrityError

TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class TextSettings:
    """Settings of `kind: text`.

    Attributes:
        model: a folder, or a name on the hub.
        output: a `vector` of the whole text, or the `hidden` states of its tokens.
        max_tokens: longer texts are cut to this many tokens; None for as many as the model takes.
        revision: commit, tag or branch on the hub.
        trust_remote_code: whether to run Python code that comes with the model.
        autocast: dtype that the model computes in; None for float32.
    """

    model: str = field(metadata={"results": False})  # results depend on the content of the files
    output: Literal["vector", "hidden"] = "vector"
    max_tokens: int | None = None
    revision: str | None = field(default=None, metadata={"results": False})
    trust_remote_code: bool = field(default=False, metadata={"results": False})  # the code's files are digested
    autocast: Literal["float16", "bfloat16"] | None = None


def parsed_settings(settings: Mapping[str, object]) -> TextSettings:
    """The settings of a YAML entry. Raises `ConfigError` if one is unknown or invalid."""
    parsed = forms.parse("text", settings, TextSettings)
    if parsed.max_tokens is not None and parsed.max_tokens < 1:
        raise ConfigError(f"encoder text: max_tokens must be at least 1, found {parsed.max_tokens}")
    return parsed


def described(folder: Path) -> dict[str, Any]:
    """The content of `config.json`; empty without one. Raises `IntegrityError` if it is not valid."""
    path = folder / "config.json"
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: not valid JSON ({error}); download the model again") from error
    return found if isinstance(found, dict) else {}
