"""`kind: transformers`: the hidden states of a Hugging Face audio model, from a folder or by its name on the hub.

Owns the settings, bringing the model's files to a local folder, and the fingerprint over them. How each family of
models is fed and read is in `transformers_families`, which needs torch and transformers.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError, MissingDependencyError

CODE_VERSION = 1
_INSTALL = 'pip install "headrace[transformers]"'
_CONFIGS = ("config.json", "preprocessor_config.json")
_SAFE_WEIGHTS, _OLD_WEIGHTS = "*.safetensors", "pytorch_model*.bin"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `kind: transformers`.

    Attributes:
        model: a folder that `save_pretrained` wrote (model and feature extractor), or a name on the hub.
        revision: commit, tag or branch on the hub; name a commit to keep the latents from changing under you.
        layer: which of the hidden states, 0 for the embeddings; None for the model's output.
        layer_weights: instead of one layer, the weights of a sum over all hidden states, embeddings first.
        window_seconds: longer recordings are cut; None for what suits the family (30 s, AST 10 s).
        overlap_seconds: what neighbouring windows share.
        trust_remote_code: run Python code that comes with the model.
        autocast: run in this dtype.
        compile: run through torch.compile.
    """

    model: str = field(metadata={"results": False})  # the content of its files counts, not its place
    revision: str | None = field(default=None, metadata={"results": False})
    layer: int | None = None
    layer_weights: tuple[float, ...] | None = None
    window_seconds: float | None = None
    overlap_seconds: float = 2.0
    trust_remote_code: bool = field(default=False, metadata={"results": False})  # its code counts as a file
    autocast: Literal["float16", "bfloat16"] | None = None
    compile: bool = field(default=False, metadata={"results": False})


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. It is over the content of the files: a moved folder is the same model."""
    parsed = _parsed(settings)
    folder = model_folder(parsed)
    digests = [f"{path.name} {weights.file_digest(path)}" for path in model_files(folder, parsed)]
    return forms.fingerprint("transformers", CODE_VERSION, parsed, "\n".join(digests))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    parsed = _parsed(settings)
    if importlib.util.find_spec("transformers") is None:
        raise MissingDependencyError(f"encoder transformers: the package transformers is not installed: {_INSTALL}")
    from headrace.encoders.transformers_encoder import load_encoder  # noqa: PLC0415 - needs torch

    folder = model_folder(parsed)
    model_files(folder, parsed)
    return load_encoder(folder, parsed, fingerprint(settings), device)


def model_folder(settings: Settings) -> Path:
    """The model's files on this machine; fetched from the hub (or found in its cache) when it is a name.

    Raises:
        MissingDependencyError: not a folder, and not to be had from the hub.
    """
    if (folder := Path(settings.model)).is_dir():
        return folder
    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingDependencyError(
            f"encoder transformers: {settings.model} is no folder, and to fetch it: {_INSTALL}"
        )
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only for names on the hub

    patterns = [*_CONFIGS, _SAFE_WEIGHTS, _OLD_WEIGHTS, "*.json", *(["*.py"] if settings.trust_remote_code else [])]
    try:
        return Path(snapshot_download(settings.model, revision=settings.revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:  # huggingface_hub's errors are of these two families
        raise MissingDependencyError(
            f"encoder transformers: {settings.model}: no such folder, and the hub does not give it "
            f"({str(error).splitlines()[0]}); fetch it where there is a network, and name its folder"
        ) from error


def model_files(folder: Path, settings: Settings) -> list[Path]:
    """The files that the latents depend on, sorted: configuration, weights, and code where it is trusted.

    Raises:
        MissingDependencyError: a part is missing.
    """
    missing = [name for name in _CONFIGS if not (folder / name).is_file()]
    if missing:
        raise MissingDependencyError(
            f"encoder transformers: {folder} has no {missing[0]}; save model and feature extractor there"
        )
    found = sorted(folder.glob(_SAFE_WEIGHTS)) or sorted(folder.glob(_OLD_WEIGHTS))
    if not found:
        raise MissingDependencyError(
            f"encoder transformers: {folder} has no weights ({_SAFE_WEIGHTS} or {_OLD_WEIGHTS})"
        )
    code = sorted(folder.glob("*.py")) if settings.trust_remote_code else []
    return [folder / name for name in _CONFIGS] + found + code


def _parsed(settings: Mapping[str, object]) -> Settings:
    parsed = forms.parse("transformers", settings, Settings)
    if parsed.layer is not None and parsed.layer_weights is not None:
        raise ConfigError("encoder transformers: give layer or layer_weights, not both")
    if parsed.window_seconds is not None and parsed.window_seconds <= 0:
        raise ConfigError(f"encoder transformers: window_seconds must be above 0, found {parsed.window_seconds:g}")
    if parsed.overlap_seconds < 0:
        raise ConfigError(
            f"encoder transformers: overlap_seconds must not be below 0, found {parsed.overlap_seconds:g}"
        )
    return parsed
