"""Small pictures for asset metadata: PNG in a Markdown data URI, a few kilobytes, as they live in the event log.

Draws what it is given and reads nothing. matplotlib is imported late and without pyplot, which keeps global state.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 72
_COLOUR = "#2f6f8f"
_POINTS = 240


@dataclass(frozen=True, slots=True)
class Clip:
    """Audio to draw: its key, float32 samples (frames,) in [-1, 1] and rate."""

    key: str
    samples: np.ndarray[Any, np.dtype[np.float32]]
    sample_rate_hz: int


def histogram(seconds: Sequence[float]) -> str:
    """How long samples are, as Markdown."""
    figure = _figure(3.6, 1.4)
    axes = figure.subplots()
    axes.hist(seconds, bins=min(24, max(1, len(set(seconds)))), color=_COLOUR)
    axes.set_xlabel("seconds", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    return _markdown(figure, "histogram of durations")


def waveforms(clips: Sequence[Clip]) -> str:
    """The clips' envelopes one below the other, as Markdown."""
    figure = _figure(3.6, 0.75 * len(clips))
    for axes, clip in zip(figure.subplots(len(clips), squeeze=False)[:, 0], clips, strict=True):
        low, high = _envelope(clip.samples)
        at = np.linspace(0, len(clip.samples) / clip.sample_rate_hz, len(low))
        axes.fill_between(at, low, high, color=_COLOUR, linewidth=0, antialiased=False)
        axes.set_ylim(-1, 1)
        axes.set_yticks([])
        axes.set_title(clip.key[:60], fontsize=6, loc="left", pad=2)
        axes.tick_params(labelsize=6, length=2)
        axes.spines[["top", "right", "left"]].set_visible(False)
    return _markdown(figure, "waveforms")


def _envelope(
    samples: np.ndarray[Any, np.dtype[np.float32]],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lowest and highest value of each of at most `_POINTS` stretches."""
    edges = np.linspace(0, len(samples), min(_POINTS, len(samples)), endpoint=False).astype(np.intp)
    return np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI)
    figure.subplots_adjust(left=0.08, right=0.98, bottom=0.4 / height, top=1 - 0.2 / height, hspace=0.9)
    return figure


def _markdown(figure: "Figure", label: str) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return f"![{label}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
