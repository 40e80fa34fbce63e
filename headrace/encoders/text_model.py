"""The encoder of `kind: text` for models of transformers. Imports torch; transformers when a model is loaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.encoders import running
from headrace.encoders.framing import to_device
from headrace.encoders.outputs import EncoderOutput
from headrace.encoders.protocol import EncoderInfo, TokenIds
from headrace.encoders.text_settings import TextSettings, described
from headrace.encoders.transformers_loading import load_model
from headrace.errors import ConfigError
from headrace.output_kinds import OutputKind

_MOST_TOKENS = 512  # of models that have no limit of their own
_NO_LIMIT = 1_000_000  # of transformers' tokenizers without one
_OTHER_HALVES = ("audio_model", "vision_model")


def load_text_model(folder: Path, settings: TextSettings, fingerprint: str, device: str) -> "TextModel":
    """Load the model in a folder. Raises as `load_model`, and `ConfigError` if it gives nothing of a text."""
    network = "AutoModelForTextEncoding" if described(folder).get("is_encoder_decoder") else "AutoModel"
    model, tokenizer = load_model(folder, settings, "AutoTokenizer", network)
    for half in _OTHER_HALVES:
        if hasattr(model, half):
            setattr(model, half, None)
    return TextModel(running.frozen(model, device), tokenizer, settings, fingerprint, device)


class TextModel:
    """A `TextEncoder` of a model of transformers.

    The vector is the model's own (CLAP, CLIP: the projection), else the mean of the hidden states of a text's tokens.
    """

    sample_rate_hz, num_channels, hop = 0, 1, 1

    def __init__(self, model: Any, tokenizer: Any, settings: TextSettings, fingerprint: str, device: str) -> None:  # noqa: ANN401
        self._model, self._tokenizer, self._settings = model, tokenizer, settings
        self._projects = hasattr(model, "get_text_features")
        self.device, self.fingerprint = device, fingerprint
        text = getattr(model.config, "text_config", model.config)
        self._gives_vector = settings.output == "vector"
        width = model.config.projection_dim if self._projects and self._gives_vector else text.hidden_size
        self.latent_dim = int(width)
        kind = OutputKind.VECTOR if self._gives_vector else OutputKind.FRAMES
        name = "embedding" if self._gives_vector else "hidden"
        self.outputs = (EncoderOutput(name, kind, self.latent_dim, is_choice=self._gives_vector),)
        self._limit = settings.max_tokens or most_tokens(text, tokenizer)
        tolerance = running.batch_tolerance(settings.autocast)
        self.info = EncoderInfo(0, self._limit, 1, is_concurrent=True, batch_tolerance=tolerance)
        self._check_limit(text)

    def _check_limit(self, text: Any) -> None:  # noqa: ANN401 - a configuration of transformers
        most = most_tokens(text, self._tokenizer)
        if getattr(text, "max_position_embeddings", None) and self._limit > most:
            raise ConfigError(f"encoder text: max_tokens is {self._limit}, this model takes at most {most}")

    def token_ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """See `TextEncoder`."""
        if not texts:
            return []
        found = self._tokenizer(list(texts), truncation=True, max_length=self._limit)["input_ids"]
        return [np.asarray(ids, np.int64) for ids in found]

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return num_frames

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `TextEncoder`."""
        mask = torch.arange(batch.shape[2], device=batch.device) < to_device(lengths, batch.device)[:, None]
        padding = self._tokenizer.pad_token_id or 0
        ids = torch.where(mask, batch[:, 0], padding)  # models may find positions by the padding's number
        with running.precision(self.device, self._settings.autocast):
            if self._projects and self._gives_vector:
                found = self._model.get_text_features(input_ids=ids, attention_mask=mask.long())
                vector: Tensor = getattr(found, "pooler_output", found)  # a tensor before transformers 5
                return {"embedding": vector.float()}
            model = self._model.text_model if self._projects else self._model
            hidden: Tensor = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        if not self._gives_vector:
            return {"hidden": (hidden, lengths)}
        weights = mask[..., None].float()
        return {"embedding": (hidden * weights).sum(1) / weights.sum(1)}


def most_tokens(text: Any, tokenizer: Any) -> int:  # noqa: ANN401 - transformers' classes are not typed
    """The most tokens of a text that a model takes, from its configuration and its tokenizer."""
    places = getattr(text, "max_position_embeddings", None)
    if places and getattr(text, "model_type", "") in {"roberta", "xlm-roberta", "camembert", "clap_text_model"}:
        places -= text.pad_token_id + 1  # their positions begin behind the padding's number
    stated = tokenizer.model_max_length if tokenizer.model_max_length < _NO_LIMIT else None
    return int(min(filter(None, (places, stated)), default=_MOST_TOKENS))
