"""Decoders and collates that torch-based peers share, as documented and at their best."""

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import soundfile as sf
import torch

from benchmarks.peers.clips import LATENT_SHAPE, Batch, Run

Sample = tuple[torch.Tensor, dict[str, Any]]


def decode(run: Run, payload: bytes | memoryview) -> torch.Tensor:
    """(N,) float32 of a mono FLAC, or (T, D) of a `.pth`, or of a `.npy` in the best form."""
    if run.kind == "audio":
        return _flac(payload) if run.is_best else torch.from_numpy(sf.read(io.BytesIO(payload), dtype="float32")[0])
    if run.has_arrays:
        return array(payload)
    return torch.load(io.BytesIO(payload), weights_only=True)["encoder_hidden"]


def _flac(payload: bytes | memoryview) -> torch.Tensor:
    """By our own decoder, dr_flac, straight into the tensor."""
    from headrace.audio import decode_flac_into, flac_info  # noqa: PLC0415 - its environment may lack the decoder

    samples = np.empty((1, flac_info(payload).num_frames), np.float32)
    decode_flac_into(payload, samples)
    return torch.from_numpy(samples[0])


def array(payload: bytes | memoryview) -> torch.Tensor:
    """(T, D) float16 of a `.npy`: a view of its bytes behind the header, not a copy."""
    length = int.from_bytes(payload[8:10], "little")
    return raw(memoryview(payload)[10 + length :])


def raw(payload: bytes | memoryview) -> torch.Tensor:
    """(T, D) float16 of the bytes of an array: a view."""
    return torch.frombuffer(payload, dtype=torch.float16).view(LATENT_SHAPE)


def decoded(run: Run, payload: bytes | memoryview, text: bytes | str | dict[str, Any]) -> Sample:
    """One sample; some peers have parsed its JSON already."""
    return decode(run, payload), text if isinstance(text, dict) else json.loads(text)


def padded(samples: Iterable[Sample]) -> Batch:
    """One batch of rows of any lengths, as documents show it."""
    tensors, metadata = zip(*samples, strict=True)
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), metadata


def stacked(samples: Iterable[Sample]) -> Batch:
    """One batch. Rows of one length, as all latents here have, need no padding: a single copy."""
    tensors, metadata = zip(*samples, strict=True)
    return torch.stack(tensors), metadata


def collated(run: Run, samples: Iterable[Sample]) -> Batch:
    """One batch, in the form's way."""
    return stacked(samples) if run.has_arrays else padded(samples)


def collated_rows(run: Run, rows: Sequence[dict[str, Any]]) -> Batch:
    """One batch of rows that are `payload` (bytes, or an array in the best form of latents) and `json`."""
    if run.has_arrays:
        return stacked((torch.as_tensor(row["payload"]), _parsed(row["json"])) for row in rows)
    return padded(decoded(run, row["payload"], row["json"]) for row in rows)


def _parsed(text: bytes | str | dict[str, Any]) -> dict[str, Any]:
    return text if isinstance(text, dict) else json.loads(text)
