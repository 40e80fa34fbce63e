"""Masks, padding and framing of batches whose rows have different lengths; shared by several encoders.

Imports torch, so encoders import this module only when they are loaded.
"""

import torch
from torch import Tensor


def valid_mask(lengths: Tensor, size: int) -> Tensor:
    """Bool (B, size) on the device of `lengths` (B,): whether a position is before the end of its row."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def to_device(facts: Tensor, device: torch.device) -> Tensor:
    """Copy a small CPU tensor to `device` without waiting for the device's other work."""
    pinned = facts.pin_memory() if device.type == "cuda" else facts
    return pinned.to(device, non_blocking=True)


def zero_padding(hidden: Tensor, lengths: Tensor) -> Tensor:
    """`hidden` (B, T, D) with everything after each row's length (on the CPU) replaced by zeros, NaN included."""
    if bool((lengths >= hidden.shape[1]).all()):
        return hidden
    mask = to_device(valid_mask(lengths, hidden.shape[1]), hidden.device)
    return hidden.masked_fill(~mask[:, :, None], 0)


def centred_frames(batch: Tensor, size: int, hop: int) -> Tensor:
    """Frames (B, 1 + N // hop, size) of mono rows (B, 1, N), centred on multiples of `hop`; zeros beyond the ends."""
    padded = torch.nn.functional.pad(batch[:, 0], (size // 2, size - size // 2))
    return padded.unfold(1, size, hop)[:, : 1 + batch.shape[2] // hop]


def power_spectrum(frames: Tensor, size: int) -> Tensor:
    """Squared magnitudes (…, size // 2 + 1) of the FFT of frames, padded with zeros to `size`."""
    spectrum: Tensor = torch.fft.rfft(frames, size)  # `abs` takes three times as long as the FFT
    return spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
