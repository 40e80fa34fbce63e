"""Arithmetic on batches of rows with lengths that several encoders share.

Owns masks, padding and framing. It imports torch and is imported by encoders only when they load.
"""

import torch
from torch import Tensor


def valid_mask(lengths: Tensor, size: int) -> Tensor:
    """Bool (B, size) where `lengths` are: which positions lie before each row's length."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def to_device(facts: Tensor, device: torch.device) -> Tensor:
    """A small CPU tensor on `device`, without waiting for what the device is doing."""
    pinned = facts.pin_memory() if device.type == "cuda" else facts
    return pinned.to(device, non_blocking=True)


def zero_padding(hidden: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, D) with zeros behind each row's length, whatever stood there (NaN too)."""
    mask = to_device(valid_mask(lengths, hidden.shape[1]), hidden.device)
    return hidden.masked_fill(~mask[:, :, None], 0.0)


def centred_frames(batch: Tensor, size: int, hop: int) -> Tensor:
    """Mono rows (B, 1, N) as frames (B, 1 + N // hop, size) centred on multiples of `hop`, zeros beyond the ends."""
    padded = torch.nn.functional.pad(batch[:, 0], (size // 2, size - size // 2))
    return padded.unfold(1, size, hop)[:, : 1 + batch.shape[2] // hop]
