"""Draws small pictures for asset metadata: PNG in a Markdown data URI, a few kilobytes, because the event log has them.

Reads no files. matplotlib is imported late, and without pyplot, which keeps global state.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.report.figures import SPECTRUM_STEP, SPECTRUM_WINDOW, levels_db, scaled
from headrace.tools.column_summary import ColumnSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 72
_COLOUR = "#2f6f8f"
_POINTS = 240
_MOST_COLUMNS = 12
_COLUMNS_IN_A_ROW = 3
_SHADES = 48  # colours of a picture with images: a third of the bytes, and no difference to see


@dataclass(frozen=True, slots=True)
class AudioToDraw:
    """Audio to draw: its key, float32 samples (frames,) in [-1, 1] and rate."""

    key: str
    samples: np.ndarray[Any, np.dtype[np.float32]]
    sample_rate_hz: int


def histogram(seconds: Sequence[float]) -> str:
    """A histogram of durations, as Markdown."""
    figure = _figure(3.6, 1.4)
    axes = figure.subplots()
    axes.hist(seconds, bins=min(24, max(1, len(set(seconds)))), color=_COLOUR)
    axes.set_xlabel("seconds", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    return _markdown(figure, "histogram of durations")


def share_bars(shares: Mapping[str, float]) -> str:
    """The share of each split that a view keeps, as Markdown."""
    figure = _figure(3.6, 0.5 + 0.25 * len(shares))
    axes = figure.subplots()
    axes.barh(list(shares), [100 * share for share in shares.values()], color=_COLOUR, height=0.6)
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    axes.set_xlabel("% of the samples chosen", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.2)
    return _markdown(figure, "share of each split that the view keeps")


def column_histograms(summaries: Sequence[ColumnSummary]) -> str:
    """A small histogram of each column that has several values, three in a row, as Markdown; empty without any.

    Facts that are text (keys and paths) are left out.
    """
    several = [summary for summary in summaries if summary.num_distinct > 1]
    drawn = [one for one in several if not (one.spec.is_fact and one.spec.kind.is_text)][:_MOST_COLUMNS]
    if not drawn:
        return ""
    rows = -(-len(drawn) // _COLUMNS_IN_A_ROW)
    figure = _figure(5.4, 1.0 * rows)
    grid = figure.subplots(rows, _COLUMNS_IN_A_ROW, squeeze=False).ravel()
    for axes, summary in zip(grid, drawn, strict=False):
        low, high = summary.quantiles[0], summary.quantiles[-1]
        edges = np.linspace(low, high, len(summary.counts) + 1) if high > low else np.array([low - 0.5, low + 0.5])
        axes.stairs(summary.counts if high > low else [sum(summary.counts)], edges, fill=True, color=_COLOUR)
        axes.set_yticks([])
        axes.set_title(summary.label[:24], fontsize=6, loc="left", pad=2)
        axes.tick_params(labelsize=5, length=2)
        axes.spines[["top", "right", "left"]].set_visible(False)
    for axes in grid[len(drawn) :]:
        axes.set_axis_off()
    return _markdown(figure, "histograms of the columns; of text, its length")


def waveforms(clips: Sequence[AudioToDraw]) -> str:
    """The envelopes of the clips, one below the other, as Markdown."""
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


def latents_below_spectrogram(clip: AudioToDraw, hidden: np.ndarray[Any, Any], frame_rate_hz: float) -> str:
    """The clip's spectrogram and the latents (T, D) that an encoder made of it, over the same seconds, as Markdown."""
    figure = _figure(4.8, 3.2)
    figure.subplots_adjust(left=0.11, hspace=0.28)
    above, below = figure.subplots(2, 1, sharex=True)
    levels = levels_db(clip.samples)
    first = (SPECTRUM_WINDOW - SPECTRUM_STEP) / 2 / clip.sample_rate_hz  # step 0 is drawn at the middle of its window
    steps = (first, first + levels.shape[1] * SPECTRUM_STEP / clip.sample_rate_hz)
    _image(above, levels, (*steps, 0, clip.sample_rate_hz / 2000), f"{clip.key[:60]}: spectrogram, kHz")
    frames = (-0.5 / frame_rate_hz, (len(hidden) - 0.5) / frame_rate_hz)
    width = hidden.shape[1]
    _image(below, scaled(hidden), (*frames, 0, width), f"{width} latent dimensions at {frame_rate_hz:g} Hz")
    below.set_xlabel("seconds", fontsize=7)
    below.set_xlim(0, len(clip.samples) / clip.sample_rate_hz)
    return _markdown(figure, "latents below their spectrogram", _SHADES)


def _image(axes: Any, values: np.ndarray[Any, Any], extent: tuple[float, ...], title: str) -> None:  # noqa: ANN401
    axes.imshow(values, extent=extent, cmap="magma", origin="lower", aspect="auto")
    axes.set_title(title, fontsize=7, loc="left", pad=2)
    axes.tick_params(labelsize=6, length=2)


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


def _markdown(figure: "Figure", label: str, num_colours: int = 0) -> str:
    """The figure as PNG in Markdown; `num_colours` reduces its colours, 0 keeps all."""
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    if num_colours:
        from PIL import Image  # noqa: PLC0415 - comes with matplotlib, as late

        reduced = Image.open(file).convert("RGB").quantize(num_colours)
        file = io.BytesIO()
        reduced.save(file, format="png", optimize=True)
    return f"![{label}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
