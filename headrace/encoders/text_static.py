"""The encoder of `kind: text` for a table of token vectors: a text's vector is the mean of those of its tokens.

Such models (model2vec, static sentence transformers) are a file of weights and `tokenizer.json`. numpy computes them,
on a CPU beside any GPU. Unknown tokens do not count in models of model2vec, as there; in others they do. Imports torch
for the form of batches only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.encoders.outputs import EncoderOutput
from headrace.encoders.protocol import EncoderInfo, TokenIds
from headrace.encoders.text_settings import TOKENIZER, TextSettings, described
from headrace.errors import ConfigError, IntegrityError
from headrace.output_kinds import OutputKind

_MOST_TOKENS = 1 << 14


class StaticText:
    """A `TextEncoder` of a table of token vectors (tokens, D)."""

    sample_rate_hz, num_channels, hop = 0, 1, 1
    device = "cpu"

    def __init__(self, folder: Path, settings: TextSettings, fingerprint: str, device: str) -> None:  # noqa: ARG002 - numpy computes
        from tokenizers import Tokenizer  # noqa: PLC0415 - comes with transformers

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # tokenizers raises plain exceptions
            raise IntegrityError(f"{folder / TOKENIZER}: not a tokenizer ({error}); download it again") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._table = read_table(folder)
        if self._tokenizer.get_vocab_size() > len(self._table):
            raise ConfigError(
                f"encoder text: {folder}: the tokenizer has {self._tokenizer.get_vocab_size()} tokens, the table "
                f"{len(self._table)} vectors; they are not of one model"
            )
        about = described(folder)
        self._is_normalized = bool(about.get("normalize", False))
        unknown = getattr(self._tokenizer.model, "unk_token", None) if about.get("model_type") == "model2vec" else None
        self._dropped = self._tokenizer.token_to_id(unknown) if unknown else None
        self.fingerprint, self.latent_dim = fingerprint, self._table.shape[1]
        self._limit = settings.max_tokens or _MOST_TOKENS
        self.info = EncoderInfo(0, self._limit, 1, is_concurrent=True)
        self.outputs = (EncoderOutput("embedding", OutputKind.VECTOR, self.latent_dim, is_choice=True),)

    def token_ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """See `TextEncoder`."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        known = ([one for one in text.ids if one != self._dropped] for text in found)
        return [np.asarray(ids[: self._limit], np.int64) for ids in known]

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return num_frames

    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `TextEncoder`."""
        rows = zip(batch[:, 0].numpy(), lengths.tolist(), strict=True)
        found = np.stack([self._table[ids[:length]].mean(0) for ids, length in rows])
        if self._is_normalized:
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return {"embedding": torch.from_numpy(found)}


def read_table(folder: Path) -> NDArray[np.float32]:
    """The vectors (tokens, D) in a folder's only `.safetensors` or `.npy` file, as float32; no code of it is run.

    Raises:
        ConfigError: there are several files or arrays.
        IntegrityError: the file cannot be read, or does not hold one table of finite numbers.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.npy"))
    if len(files) != 1:
        raise ConfigError(f"encoder text: {folder}: expected one file of token vectors, found {len(files)}")
    try:
        arrays = _arrays(files[0])
    except (ValueError, OSError, EOFError, TypeError) as error:
        raise IntegrityError(f"{files[0]}: not a table of token vectors ({error}); download it again") from error
    if len(arrays) != 1:
        names = ", ".join(arrays)
        raise ConfigError(f"encoder text: {files[0]} has several arrays ({names}), expected one table of token vectors")
    table = np.asarray(next(iter(arrays.values())), np.float32)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise IntegrityError(f"{files[0]}: expected finite numbers (tokens, D), found {table.shape}; download it again")
    return table


def _arrays(path: Path) -> dict[str, Any]:
    if path.suffix == ".npy":
        return {"table": np.load(path, allow_pickle=False)}
    from safetensors import SafetensorError  # noqa: PLC0415 - comes with transformers
    from safetensors.numpy import load_file  # noqa: PLC0415

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(error) from error
