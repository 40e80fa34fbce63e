"""Loads a saved Hugging Face model without running code that the user did not allow.

Rejects weights that would run code, that are missing or not finite, and models whose own Python code is not trusted.
Imports torch; transformers is imported only when a model is loaded.
"""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headrace.encoders import weights
from headrace.encoders.transformers_settings import HubModel
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError


def load_model(
    folder: Path, settings: HubModel, processor: str = "AutoFeatureExtractor", network: str = "AutoModel"
) -> tuple[Any, Any]:
    """Load the model in a folder that `save_pretrained` wrote.

    Args:
        folder: the folder.
        settings: whether its code is trusted.
        processor: name of the class of transformers that loads what prepares its input.
        network: name of the class of transformers that loads the model.

    Returns:
        The model, in float32 on the CPU, and its feature extractor or tokenizer.

    Raises:
        IntegrityError: the weights would run code, are truncated, do not fit, or are not finite.
        ConfigError: the model needs its own code, which is not trusted or does not run here.
        MissingDependencyError: the model's code needs a package that is not installed.
    """
    import transformers  # noqa: PLC0415 - optional, and slow to import

    described = _described(folder)
    _check_trust(folder, described, settings)
    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": settings.trust_remote_code}
    try:
        config = (
            _as_hubert(described)
            if _is_plain_mert(described)
            else transformers.AutoConfig.from_pretrained(folder, **where)
        )
        extractor = getattr(transformers, processor).from_pretrained(folder, **where)
        with _without_progress_bar():
            model, report = getattr(transformers, network).from_pretrained(
                folder, config=config, output_loading_info=True, dtype=torch.float32, **where
            )
    except ImportError as error:
        raise MissingDependencyError(f"encoder transformers: {folder}: {error}") from error
    except (pickle.UnpicklingError, OSError, RuntimeError, ValueError) as error:
        raise IntegrityError(
            f"{folder}: the model cannot be loaded safely ({_first_line(error)}); save it as safetensors"
        ) from error
    except (AttributeError, TypeError, KeyError, AssertionError) as error:
        raise not_runnable(folder, error) from error
    if missing := sorted(report["missing_keys"]):
        raise IntegrityError(f"{folder}: the weights of {', '.join(missing[:3])} are missing; download the model again")
    weights.check_finite(model.state_dict(), str(folder))
    if not brings_code(model):
        leave_masks_unread(model)
    return model, extractor


def leave_masks_unread(model: Any) -> None:  # noqa: ANN401
    """Let a model's attention use its mask of padding as it is.

    Transformers asks whether a mask hides anything, for which the CPU waits for the GPU in each forward pass.
    """
    from transformers import AttentionInterface, AttentionMaskInterface  # noqa: PLC0415
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: PLC0415
    from transformers.masking_utils import sdpa_mask  # noqa: PLC0415

    def unread(**given: Any) -> Any:  # noqa: ANN401
        return sdpa_mask(**{**given, "allow_is_bidirectional_skip": given.get("attention_mask") is None})

    if model.config._attn_implementation == "sdpa":  # noqa: SLF001 - it has no public name
        AttentionInterface.register("headrace_sdpa", sdpa_attention_forward)
        AttentionMaskInterface.register("headrace_sdpa", unread)
        model.set_attn_implementation("headrace_sdpa")


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Context without transformers' own progress bar, which would disturb that of a build."""
    from transformers.utils import logging  # noqa: PLC0415

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def brings_code(model: Any) -> bool:  # noqa: ANN401 - transformers' classes are not typed
    """Whether the class of a loaded model comes from the model's own files."""
    return type(model).__module__.startswith("transformers_modules")


def not_runnable(folder: Path, error: Exception) -> ConfigError:
    """The error for a model whose own code fails with this version of transformers."""
    import transformers  # noqa: PLC0415 - optional, and slow to import

    written_for = _described(folder).get("transformers_version", "an unknown version")
    return ConfigError(
        f"encoder transformers: {folder}: the model's own code does not run with transformers "
        f"{transformers.__version__} ({type(error).__name__}: {_first_line(error)}); it was saved by {written_for}: "
        'install that version, or write your own encoder and use kind: custom, encoder: "module:Class"'
    )


def _check_trust(folder: Path, described: dict[str, Any], settings: HubModel) -> None:
    """Raise `ConfigError` if loading the model runs code that comes with it and is not trusted."""
    from transformers import CONFIG_MAPPING  # noqa: PLC0415

    is_known = described.get("model_type") in CONFIG_MAPPING or _is_plain_mert(described)
    if is_known or settings.trust_remote_code or "auto_map" not in described:
        return
    code = ", ".join(sorted(path.name for path in folder.glob("*.py"))) or "in its repository"
    raise ConfigError(
        f"encoder transformers: {folder}: models of type {described.get('model_type')!r} run Python code that comes "
        f"with them ({code}); read it, and set trust_remote_code: true to let it run"
    )


def _is_plain_mert(described: dict[str, Any]) -> bool:
    """Whether it is a MERT that has HuBERT's layers only; some also have a CQT, deep norm or their own attention."""
    has_more = described.get("deepnorm") or described.get("feature_extractor_cqt")
    return described.get("model_type") == "mert_model" and not has_more and described.get("attention_relax", -1) <= 0


def _as_hubert(described: dict[str, Any]) -> Any:  # noqa: ANN401
    """A HuBERT configuration for a plain MERT, which is the same network. Then MERT's own code is not needed."""
    from transformers import HubertConfig  # noqa: PLC0415

    known = HubertConfig().to_dict().keys() - {"model_type", "architectures", "auto_map", "transformers_version"}
    return HubertConfig(**{name: value for name, value in described.items() if name in known})


def _described(folder: Path) -> dict[str, Any]:
    try:
        described = json.loads((folder / "config.json").read_bytes())
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{folder}/config.json: not valid JSON ({error}); download the model again") from error
    return described if isinstance(described, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
