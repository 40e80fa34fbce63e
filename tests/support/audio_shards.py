"""Clips for small audio partitions, and their writers."""

import numpy as np

from headrace.testing.audio_shards import commit, write_partition

__all__ = ["commit", "noise", "tone", "write_partition"]


def tone(seconds: float, frequency_hz: float = 440.0, sample_rate_hz: int = 16_000) -> np.ndarray:
    """A sine at half scale, float32 (frames,)."""
    time = np.arange(round(seconds * sample_rate_hz)) / sample_rate_hz
    return (0.5 * np.sin(2 * np.pi * frequency_hz * time)).astype(np.float32)


def noise(num_frames: int, seed: int) -> np.ndarray:
    """Quiet white noise, float32 (frames,)."""
    return (0.1 * np.random.default_rng(seed).standard_normal(num_frames)).astype(np.float32)
