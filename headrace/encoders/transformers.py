"""`kind: transformers`: hidden states of a Hugging Face audio model, from a local folder or from the hub.

Finds or downloads the model's files and computes the fingerprint of their content. Importing this module imports
neither torch nor transformers.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.protocol import Encoder
from headrace.encoders.transformers_settings import HubModel, TransformersSettings, parsed_settings
from headrace.errors import MissingDependencyError

CODE_VERSION = 1
_INSTALL = 'pip install "headrace[transformers]"'
_CONFIGS = ("config.json", "preprocessor_config.json")
_SAFE_WEIGHTS, _OLD_WEIGHTS = "*.safetensors", "pytorch_model*.bin"


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. It depends on the content of the files, not on the folder's path."""
    parsed = parsed_settings(settings)
    folder = model_folder(parsed)
    digests = [f"{path.name} {weights.file_digest(path)}" for path in model_files(folder, parsed)]
    return forms.fingerprint("transformers", CODE_VERSION, parsed, "\n".join(digests))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    parsed = parsed_settings(settings)
    if importlib.util.find_spec("transformers") is None:
        raise MissingDependencyError(f"encoder transformers: the package transformers is not installed: {_INSTALL}")
    from headrace.encoders.transformers_encoder import load_encoder  # noqa: PLC0415 - needs torch

    folder = model_folder(parsed)
    model_files(folder, parsed)
    return load_encoder(folder, parsed, fingerprint(settings), device)


def model_folder(settings: HubModel, kind: str = "transformers") -> Path:
    """The local folder of the model's files. If `model` is a name, they are downloaded, or found in the hub's cache.

    Args:
        settings: the model's name or folder.
        kind: kind of the encoder, for messages.

    Raises:
        MissingDependencyError: `model` is not a folder, and the hub does not provide it.
    """
    if (folder := weights.local_path(settings.model)).is_dir():
        return folder
    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingDependencyError(
            f"encoder {kind}: {settings.model} is not a folder; to download a model by its name, {_INSTALL}"
        )
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only for names on the hub

    patterns = [*_CONFIGS, _SAFE_WEIGHTS, _OLD_WEIGHTS, "*.json", *(["*.py"] if settings.trust_remote_code else [])]
    try:
        return Path(snapshot_download(settings.model, revision=settings.revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:  # huggingface_hub's errors are of these two families
        raise MissingDependencyError(
            f"encoder {kind}: {settings.model}: no such folder, and the hub does not provide it "
            f"({str(error).splitlines()[0]}); download the model where there is a network, and name its folder"
        ) from error


def model_files(folder: Path, settings: TransformersSettings) -> list[Path]:
    """The files that the latents depend on: configuration, weights, and the model's code if it is trusted.

    Raises:
        MissingDependencyError: the folder lacks a configuration file or the weights.
    """
    missing = [name for name in _CONFIGS if not (folder / name).is_file()]
    if missing:
        raise MissingDependencyError(
            f"encoder transformers: {folder} has no {missing[0]}; save both the model and its feature extractor there"
        )
    found = sorted(folder.glob(_SAFE_WEIGHTS)) or sorted(folder.glob(_OLD_WEIGHTS))
    if not found:
        raise MissingDependencyError(
            f"encoder transformers: {folder} has no weights ({_SAFE_WEIGHTS} or {_OLD_WEIGHTS})"
        )
    code = sorted(folder.glob("*.py")) if settings.trust_remote_code else []
    return [folder / name for name in _CONFIGS] + found + code
