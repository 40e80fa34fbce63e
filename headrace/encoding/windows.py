"""How a long recording is cut for an encoder, and how its latents are joined so that no seam shows. Pure arithmetic.

PCM      |------- window 0 -------|
                          |------- window 1 -------|
latents  [ own ........ ctx|blend|ctx ....... own ...]

Neighbouring windows share `overlap` PCM frames. Of the latents in the shared part, those within `context` of a cut
feel the cut and are dropped; over what lies between, one window fades into the next. An encoder whose latents depend on
`context` alone gives the same numbers as if it had seen the whole; one with global attention changes over smoothly.
"""

from dataclasses import dataclass

import numpy as np

from headrace.encoders.protocol import Encoder


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a recording, in PCM frames of the encoder's rate: `start` is a multiple of its hop."""

    start: int
    stop: int

    @property
    def num_frames(self) -> int:
        """Its length."""
        return self.stop - self.start


def plan_windows(num_frames: int, encoder: Encoder) -> tuple[Window, ...]:
    """The windows that cover a recording, in order; one when it fits."""
    info = encoder.info
    if num_frames <= info.window:
        return (Window(0, num_frames),)
    step = info.window - info.overlap
    starts = range(0, num_frames - info.overlap, step)
    return tuple(Window(start, min(start + info.window, num_frames)) for start in starts)


def blend_weights(
    windows: tuple[Window, ...], i: int, num_latent: int, encoder: Encoder
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Weight of each of window i's latent frames, float32 (num_latent,); over all windows they add up to 1."""
    info, hop = encoder.info, encoder.hop
    weights = np.ones(num_latent, np.float32)
    dropped = -(-info.context // hop)
    shared = info.overlap // hop
    ramp = np.clip((np.arange(shared) - dropped + 1) / (shared - 2 * dropped + 1), 0, 1).astype(np.float32)
    if i > 0:
        weights[:shared] = ramp[:num_latent]
    if i + 1 < len(windows):
        first = (windows[i + 1].start - windows[i].start) // hop
        weights[first : first + shared] *= 1 - ramp[: max(0, num_latent - first)]
        weights[first + shared :] = 0
    return weights
