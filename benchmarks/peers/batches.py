"""What every torch-based peer shares: one decoder, one collate."""

import io
import json
from collections.abc import Iterable
from typing import Any

import soundfile as sf
import torch

from benchmarks.peers.clips import Batch


def decode(kind: str, payload: bytes) -> torch.Tensor:
    """(N,) float32 of a mono FLAC, or (T, D) of a `.pth`."""
    if kind == "audio":
        return torch.from_numpy(sf.read(io.BytesIO(payload), dtype="float32")[0])
    return torch.load(io.BytesIO(payload), weights_only=True)["encoder_hidden"]


def decoded(kind: str, payload: bytes, text: bytes | str | dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    """One sample; some peers have parsed its JSON already."""
    return decode(kind, payload), text if isinstance(text, dict) else json.loads(text)


def padded(samples: Iterable[tuple[torch.Tensor, dict[str, Any]]]) -> Batch:
    """One batch."""
    tensors, metadata = zip(*samples, strict=True)
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), metadata
