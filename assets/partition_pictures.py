"""Draws the pictures of partitions for asset metadata: PNG in Markdown data URIs, small because the event log has them.

Reads no files. Every partition's run draws two, so they are drawn pixel by pixel: with matplotlib, which the report
uses, pictures were a third of what a run costs (docs/design/0077-what-a-run-costs.md).
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.report.figures import SPECTRUM_STEP, SPECTRUM_WINDOW, levels_db, scaled

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_WIDTH = 300
_HISTOGRAM_HEIGHT = 110
_CLIP_HEIGHT = 64
_PANEL_HEIGHT = 120
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 12, 15, 15  # margins around what is drawn, in pixels
_TEXT_SIZE = 10
_COLOUR, _INK, _PAPER = "#2f6f8f", "#333333", "#ffffff"
_MOST_BARS = 24
_TICKS = 5
_TICK_PIXELS = 3
_KEY_LETTERS = 60
_SHADES = 48  # colours of a picture with images: a third of the bytes, and no difference to see
_MAGMA = (  # of matplotlib's colours of that name, every 32nd
    (0, 0, 4), (28, 16, 68), (79, 18, 123), (129, 37, 129), (181, 54, 122), (229, 80, 100), (251, 135, 97),
    (254, 194, 135), (252, 253, 191),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AudioToDraw:
    """Audio to draw: its key, float32 samples (frames,) in [-1, 1] and rate."""

    key: str
    samples: np.ndarray[Any, np.dtype[np.float32]]
    sample_rate_hz: int


@dataclass(frozen=True, slots=True)
class _Panel:
    """A part of a picture with a horizontal axis.

    Attributes:
        draw: draws on the picture.
        top: first row of pixels.
        height: rows of pixels, with title and axis.
        stop: value at the right end of the axis; the left end is 0.
        width: columns of pixels of the picture.
    """

    draw: "ImageDraw"
    top: int
    height: int
    stop: float
    width: int = _WIDTH

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of what is drawn."""
        return _LEFT, self.top + _TOP, self.width - _RIGHT, self.top + self.height - _BOTTOM

    def x(self, value: float) -> float:
        """Column of a value on the axis."""
        left, _, right, _ = self.box
        return left + (right - left) * value / max(self.stop, 1e-9)

    def titled(self, title: str, unit: str = "") -> None:
        """Draw title and axis."""
        left, _, right, bottom = self.box
        self._text((left, self.top + 1), title[:_KEY_LETTERS], "la")
        self.draw.line([(left, bottom), (right, bottom)], _INK)
        for number, value in enumerate(np.linspace(0, self.stop, _TICKS).tolist()):
            column = round(self.x(value))
            self.draw.line([(column, bottom), (column, bottom + _TICK_PIXELS)], _INK)
            label = f"{value:.3g}{unit if number == _TICKS - 1 else ''}"
            self._text((column, bottom + _TICK_PIXELS), label, "ra" if number == _TICKS - 1 else "ma")

    def beside(self, top: str, bottom: str) -> None:
        """Write what the upper and the lower end of the vertical axis mean."""
        left, above, _, below = self.box
        self._text((left - _TICK_PIXELS, above), top, "ra")
        self._text((left - _TICK_PIXELS, below), bottom, "rd")

    def _text(self, at: tuple[float, float], text: str, anchor: str) -> None:
        from PIL import ImageFont  # noqa: PLC0415 - late, as code servers draw nothing

        font = ImageFont.load_default(_TEXT_SIZE)
        self.draw.text(at, text, _INK, font, anchor=anchor)


def histogram(seconds: Sequence[float]) -> str:
    """A histogram of durations, as Markdown."""
    picture, draw = _blank(_HISTOGRAM_HEIGHT)
    longest = max(seconds, default=0.0) or 1.0
    panel = _Panel(draw, 0, _HISTOGRAM_HEIGHT, longest)
    counts, edges = np.histogram(seconds, min(_MOST_BARS, max(1, len(set(seconds)))), (0, longest))
    _, top, _, bottom = panel.box
    most = max(1, int(counts.max()))
    for count, start, stop in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if count:
            height = max(1, round((bottom - top) * count / most))
            draw.rectangle([(panel.x(start), bottom - height), (panel.x(stop) - 1, bottom)], _COLOUR)
    panel.titled("", " s")
    panel.beside(str(most), "0")
    return _markdown(picture, "histogram of durations")


def waveforms(clips: Sequence[AudioToDraw]) -> str:
    """The envelopes of the clips, one below the other, as Markdown."""
    picture, draw = _blank(_CLIP_HEIGHT * len(clips))
    for number, clip in enumerate(clips):
        panel = _Panel(draw, number * _CLIP_HEIGHT, _CLIP_HEIGHT, len(clip.samples) / clip.sample_rate_hz)
        left, top, right, bottom = panel.box
        low, high = (values.clip(-1, 1) for values in _envelope(clip.samples, right - left))
        middle, scale = (top + bottom) / 2, (bottom - top) / 2
        for column, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            draw.line([(left + column, middle - scale * most), (left + column, middle - scale * least)], _COLOUR)
        panel.titled(clip.key, " s")
        panel.beside("1", "-1")
    return _markdown(picture, "waveforms")


def latents_below_spectrogram(clip: AudioToDraw, hidden: np.ndarray[Any, Any], frame_rate_hz: float) -> str:
    """The clip's spectrogram and the latents (T, D) that an encoder made of it, over the same seconds, as Markdown."""
    picture, draw = _blank(2 * _PANEL_HEIGHT)
    stop = len(clip.samples) / clip.sample_rate_hz
    above, below = (_Panel(draw, top, _PANEL_HEIGHT, stop) for top in (0, _PANEL_HEIGHT))
    levels = levels_db(clip.samples)
    first = (SPECTRUM_WINDOW - SPECTRUM_STEP) / 2 / clip.sample_rate_hz  # step 0 is drawn at the middle of its window
    _image(picture, above, levels, (first, first + levels.shape[1] * SPECTRUM_STEP / clip.sample_rate_hz))
    frames = (-0.5 / frame_rate_hz, (len(hidden) - 0.5) / frame_rate_hz)
    _image(picture, below, scaled(hidden), frames)
    above.titled(f"{clip.key[:_KEY_LETTERS]}: spectrogram, kHz")
    above.beside(f"{clip.sample_rate_hz / 2000:g}", "0")
    below.titled(f"{hidden.shape[1]} latent dimensions at {frame_rate_hz:g} Hz", " s")
    below.beside(str(hidden.shape[1]), "0")
    return _markdown(picture.quantize(_SHADES), "latents below their spectrogram")


def vectors(rows: np.ndarray[Any, Any]) -> str:
    """Vectors (samples, D), one below the other, each dimension scaled by its range over the samples, as Markdown."""
    picture, draw = _blank(_PANEL_HEIGHT)
    num_rows, width = rows.shape
    panel = _Panel(draw, 0, _PANEL_HEIGHT, width)
    _image(picture, panel, scaled(rows).T[::-1] if num_rows > 1 else rows, (0, width))
    panel.titled(f"vectors of {num_rows} sample{'s' if num_rows > 1 else ''}, {width} dimensions")
    panel.beside("1", str(num_rows))
    return _markdown(picture.quantize(_SHADES), "vectors of samples")


def _image(picture: "Image", panel: _Panel, values: np.ndarray[Any, Any], seconds: tuple[float, float]) -> None:
    """Draw values (rows, columns) with row 0 at the bottom; the columns take this part of the panel's axis."""
    from PIL import Image  # noqa: PLC0415 - late, as code servers draw nothing

    left, top, right, bottom = panel.box
    at = np.arange(left, right)
    second = (at + 0.5 - left) / (right - left) * panel.stop
    columns = np.floor((second - seconds[0]) / (seconds[1] - seconds[0]) * values.shape[1]).astype(np.intp)
    rows = (np.arange(bottom - top)[::-1] * values.shape[0] // (bottom - top)).astype(np.intp)
    is_inside = (columns >= 0) & (columns < values.shape[1])
    drawn = values[rows][:, columns.clip(0, values.shape[1] - 1)]
    share = (drawn - values.min()) / max(float(values.max() - values.min()), 1e-9)
    anchors = np.linspace(0, 1, len(_MAGMA))
    pixels = np.stack([np.interp(share, anchors, colour) for colour in zip(*_MAGMA, strict=True)], -1)
    pixels[:, ~is_inside] = 255
    picture.paste(Image.fromarray(pixels.astype(np.uint8)), (left, top))


def _envelope(
    samples: np.ndarray[Any, np.dtype[np.float32]], num_columns: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lowest and highest value of each of `num_columns` stretches; of few samples, the nearest one."""
    edges = np.linspace(0, len(samples), num_columns, endpoint=False).astype(np.intp)
    return np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)


def _blank(height: int) -> "tuple[Image, ImageDraw]":
    from PIL import Image, ImageDraw  # noqa: PLC0415 - late, as code servers draw nothing

    picture = Image.new("RGB", (_WIDTH, max(1, height)), _PAPER)
    return picture, ImageDraw.Draw(picture)


def _markdown(picture: "Image", label: str) -> str:
    """The picture as PNG in Markdown."""
    file = io.BytesIO()
    picture.save(file, format="png", optimize=True)
    return f"![{label}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
