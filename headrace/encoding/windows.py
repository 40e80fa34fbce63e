"""Cuts long recordings into overlapping windows, and computes the weights that blend the windows' latents. Pure.

PCM      |------- window 0 -------|
                          |------- window 1 -------|
latents  [ own ........ ctx|blend|ctx ....... own ...]

Neighbouring windows share `overlap` PCM frames. Of the latents in the shared part, those within `context` of a cut
depend on the cut and are dropped. Over the rest of the shared part, one window is blended into the next. If an
encoder's latents depend on `context` only, the result equals that of the whole recording. If the encoder has global
attention, the result changes smoothly from one window to the next.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.encoders import output
from headrace.encoders.outputs import outputs_of
from headrace.encoders.protocol import Encoder, EncoderInfo
from headrace.errors import BuildError
from headrace.output_kinds import HIDDEN


@dataclass(frozen=True, slots=True)
class ClipWindow:
    """A range of a clip, in PCM frames at the encoder's rate. `start` is a multiple of the encoder's hop."""

    start: int
    stop: int

    @property
    def num_frames(self) -> int:
        """Length of the window."""
        return self.stop - self.start


def plan_windows(num_frames: int, encoder: Encoder) -> tuple[ClipWindow, ...]:
    """The windows that cover a recording, in order; one if the recording is short enough.

    Raises:
        BuildError: the recording needs several windows, but the encoder returns fewer latent frames than windows (for
            example, one vector for a recording of any length), so that the windows' latents cannot be joined.
    """
    info = encoder.info
    if num_frames <= info.window:
        return (ClipWindow(0, num_frames),)
    step = info.window - info.overlap
    starts = range(0, num_frames - info.overlap, step)
    is_hidden = outputs_of(encoder)[0].name == HIDDEN
    if is_hidden and encoder.num_latent_frames(num_frames) < len(starts):
        window_seconds, seconds = (frames / encoder.sample_rate_hz for frames in (info.window, num_frames))
        raise BuildError(
            f"{output.name_of(encoder)}: a recording of {seconds:.1f} s needs {len(starts)} windows of "
            f"{window_seconds:g} s, but the encoder returns {encoder.num_latent_frames(num_frames)} latent frames for "
            "it, so the latents of the windows cannot be joined; give the encoder an info whose window is as long as "
            "the longest recording, or set audio.segment_seconds"
        )
    return tuple(ClipWindow(start, min(start + info.window, num_frames)) for start in starts)


def blend_weights(
    windows: tuple[ClipWindow, ...], i: int, num_latent: int, info: EncoderInfo, hop: int | Fraction
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Weights of the frames of window i, float32 (num_latent,). Over all windows, the weights add up to 1."""
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


def seam(
    windows: tuple[ClipWindow, ...], i: int, num_latent: int, overlap: int, hop: int | Fraction
) -> tuple[int, int]:
    """First and last (exclusive) of the frames of window i that are kept, if windows meet in the middle of overlaps.

    >>> windows = (ClipWindow(0, 100), ClipWindow(80, 150))
    >>> seam(windows, 0, 10, 20, 10), seam(windows, 1, 7, 20, 10)
    ((0, 9), (1, 7))
    """
    half = overlap // hop // 2
    start = half if i else 0
    if i + 1 == len(windows):
        return min(start, num_latent), num_latent
    return start, (windows[i + 1].start - windows[i].start) // hop + half
