"""`kind: text`: vectors, or hidden states of tokens, of a text column instead of the audio.

The model is one of transformers, or a table of token vectors with a tokenizer. Importing this module imports neither
torch nor transformers.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.encoders.transformers import model_folder
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError

CODE_VERSION = 1
TOKENIZER = "tokenizer.json"
_INSTALL = 'pip install "headrace[transformers]"'
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.npy")
_OF_TOKENIZERS = ("*.json", "*.model", "vocab.txt", "merges.txt")
_NOT_READ = ("model.safetensors.index.json", "modules.json", "preprocessor_config.json")
_STATIC = {"", "model2vec"}
_NO_FLOAT16 = {"t5", "mt5", "umt5", "longt5"}


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


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. It depends on the content of the files, not on the folder's path."""
    parsed = parsed_settings(settings)
    folder = model_folder(parsed, "text")
    _check_fits(folder, parsed)
    digests = [f"{path.name} {weights.file_digest(path)}" for path in _files(folder, parsed)]
    return forms.fingerprint("text", CODE_VERSION, parsed, "\n".join(digests))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    parsed = parsed_settings(settings)
    for package in ("transformers", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"encoder text: the package {package} is not installed: {_INSTALL}")
    folder, mark = model_folder(parsed, "text"), fingerprint(settings)
    if is_static(folder):
        from headrace.encoders.text_static import StaticText  # noqa: PLC0415 - needs torch

        return StaticText(folder, parsed, mark, device)
    from headrace.encoders.text_model import load_text_model  # noqa: PLC0415 - needs torch and transformers

    return load_text_model(folder, parsed, mark, device)


def is_static(folder: Path) -> bool:
    """Whether a folder holds a table of token vectors instead of a network."""
    return described(folder).get("model_type", "") in _STATIC


def described(folder: Path) -> dict[str, Any]:
    """The content of `config.json`; empty without one. Raises `IntegrityError` if it is not valid."""
    path = folder / "config.json"
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: not valid JSON ({error}); download the model again") from error
    return found if isinstance(found, dict) else {}


def _check_fits(folder: Path, settings: TextSettings) -> None:
    """Raise `ConfigError` if the model cannot give what the settings want."""
    kind = described(folder).get("model_type", "")
    if kind in _NO_FLOAT16 and settings.autocast == "float16":
        raise ConfigError(
            f"encoder text: {folder}: a {kind.upper()} overflows in float16; choose autocast: bfloat16, or leave it out"
        )
    if kind in _STATIC and (settings.output == "hidden" or settings.autocast is not None):
        raise ConfigError(
            f"encoder text: {folder} is a table of token vectors, which gives output: vector in float32 only"
        )


def _files(folder: Path, settings: TextSettings) -> list[Path]:
    """The files that the results depend on.

    Raises:
        MissingDependencyError: the folder lacks the weights or the tokenizer.
    """
    found = next((files for pattern in _WEIGHTS if (files := sorted(folder.glob(pattern)))), [])
    if not found:
        raise MissingDependencyError(f"encoder text: {folder} has no weights ({', '.join(_WEIGHTS)})")
    own = {path for pattern in _OF_TOKENIZERS for path in folder.glob(pattern) if path.name not in _NOT_READ}
    if not any(path.name.startswith(("tokenizer", "vocab", "spiece", "sentencepiece")) for path in own):
        raise MissingDependencyError(f"encoder text: {folder} has no {TOKENIZER}; save the tokenizer beside the model")
    code = set(folder.glob("*.py")) if settings.trust_remote_code else set()
    return sorted(own | code) + found
