"""`kind: text`: vectors, or hidden states of tokens, of a text column instead of the audio.

The model is one of transformers, or a table of token vectors with a tokenizer. Importing this module imports neither
torch nor transformers.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.encoders.text_settings import TOKENIZER, TextSettings, described, parsed_settings
from headrace.encoders.transformers import model_folder
from headrace.errors import ConfigError, MissingDependencyError

CODE_VERSION = 1
_INSTALL = 'pip install "headrace[transformers]"'
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.npy")
_OF_TOKENIZERS = ("*.json", "*.model", "vocab.txt", "merges.txt")
_NOT_READ = ("model.safetensors.index.json", "modules.json", "preprocessor_config.json")
_STATIC = {"", "model2vec"}
_NO_FLOAT16 = {"t5", "mt5", "umt5", "longt5"}


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
