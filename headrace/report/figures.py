"""Draws the report's pictures from numbers and arrays: charts as SVG, spectrograms and latents as small PNGs.

The colours of the charts follow the light or dark scheme of the page. matplotlib is imported late and without pyplot.
"""

import base64
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, Any]

_INK, _ACCENT = "#010203", "#020304"  # placeholders, replaced by the colours of the page
_COLOURS = {_INK: "currentColor", _ACCENT: "var(--accent)"}
_SERIES = ("#3987b8", "#d08a3c", "#4f9d69", "#b05a7a", "#7a6cc4", "#8a8f98")
_ID = re.compile(r'(?: id="|"url\(#|href="#)(?=[^<>]*>)')  # start of an id, or of a reference to one, within a tag
# Warnings by matplotlib about users' names. Browsers draw the text themselves; long names may leave no room.
_REMARKS = "Glyph .* missing from font|constrained_layout not applied"
_POINTS = 600
_LEGEND_COLUMNS = 4
_IMAGE_ROWS, _IMAGE_COLUMNS = 96, 360
SPECTRUM_WINDOW, SPECTRUM_STEP = 1024, 256
_FLOOR_DB = 80.0


def histogram(values: Sequence[float], label: str, num_bins: int = 30) -> str:
    """Histogram of values."""
    figure = _figure(4.4, 1.9)
    axes = _axes(figure, label, "count")
    axes.hist(values, bins=min(num_bins, max(1, len(set(values)))), color=_ACCENT)
    return _svg(figure, f"histogram: {label}")


def bars(hours: Mapping[str, Mapping[str, float]]) -> str:
    """Stacked bars of hours per category: `{split: {category: hours}}`."""
    categories = sorted({name for found in hours.values() for name in found})
    legend_rows = -(-len(hours) // _LEGEND_COLUMNS)
    figure = _figure(4.4, 0.7 + 0.18 * legend_rows + 0.24 * len(categories))
    axes = _axes(figure, "hours", "")
    names = [category.replace("$", r"\$") for category in categories]  # matplotlib reads $…$ as a formula
    left = np.zeros(len(categories))
    for colour, (split, found) in zip(_SERIES * len(hours), hours.items(), strict=False):
        width = np.array([found.get(name, 0.0) for name in categories])
        axes.barh(names, width, left=left, color=colour, label=split, height=0.7)
        left += width
    axes.invert_yaxis()
    figure.legend(loc="outside upper left", ncols=_LEGEND_COLUMNS, frameon=False, fontsize=7, labelcolor=_INK)
    return _svg(figure, "hours per category and split")


def growth(numbers: Sequence[int], hours: Sequence[float]) -> str:
    """Line chart of the hours of each snapshot."""
    figure = _figure(4.4, 1.9)
    axes = _axes(figure, "snapshot", "hours")
    axes.plot(numbers, hours, color=_ACCENT, marker="o", markersize=3, linewidth=1.5)
    axes.set_ylim(bottom=0)
    axes.set_xlim(min(numbers) - 0.5, max(numbers) + 0.5)  # for a single number, matplotlib would show hundredths
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return _svg(figure, "hours over snapshots")


def waveform(samples: Array) -> str:
    """Envelope of one channel, float (frames,) in [-1, 1]."""
    edges = np.linspace(0, len(samples), min(_POINTS, len(samples)), endpoint=False).astype(np.intp)
    low, high = np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)
    figure = _figure(4.4, 0.7)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.fill_between(np.arange(len(low)), low, high, color=_ACCENT, linewidth=0)
    axes.set_ylim(-1, 1)
    axes.margins(x=0)
    axes.set_axis_off()
    return _svg(figure, "waveform")


def spectrogram(samples: Array) -> str:
    """Spectrogram of one channel, float (frames,) in [-1, 1]."""
    return _image(levels_db(samples), "spectrogram")


def latents(hidden: Array) -> str:
    """Latents (T, D) as an image: time to the right, dimensions upwards; one vector (1, D) as a chart of its values."""
    return _image(scaled(hidden), "latents") if len(hidden) > 1 else vector(hidden[0])


def vector(values: Array) -> str:
    """The values (D,) of a vector, from the first to the last."""
    figure = _figure(4.4, 0.7)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.stairs(np.nan_to_num(values.astype(np.float32)), fill=True, color=_ACCENT)
    axes.margins(x=0)
    axes.set_axis_off()
    return _svg(figure, "vector")


def with_own_ids(page: str) -> str:
    """Make the ids of all SVGs of a page unique: matplotlib uses the same ids in all figures, which HTML forbids."""
    numbers = count()
    return re.sub(
        r"<svg .*?</svg>", lambda svg: _ID.sub(rf"\g<0>figure{next(numbers)}-", svg[0]), page, flags=re.DOTALL
    )


def levels_db(samples: Array) -> Array:
    """Spectrogram of one channel, float (frames,), as (frequencies, steps): dB above a floor 80 dB below the maximum.

    Step k covers 1024 frames from `k * SPECTRUM_STEP` on. Frequencies are evenly spaced from 0 to half the sample rate.
    """
    padded = np.pad(samples, (0, max(0, SPECTRUM_WINDOW - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, SPECTRUM_WINDOW)[::SPECTRUM_STEP]
    power = np.abs(np.fft.rfft(windows * np.hanning(SPECTRUM_WINDOW), axis=1)) ** 2
    level = 10 * np.log10(np.maximum(power, 1e-12))
    above: Array = np.clip(level - level.max() + _FLOOR_DB, 0, None)
    return above.T


def scaled(hidden: Array) -> Array:
    """Latents (T, D) as (D, T), each dimension scaled to 0 to 1."""
    values = hidden.astype(np.float32)
    spread = np.maximum(values.max(0) - values.min(0), 1e-9)
    return np.asarray((values - values.min(0)) / spread).T


def _image(values: Array, label: str) -> str:
    """An array (rows, columns) as a PNG of limited size, with row 0 at the bottom."""
    from matplotlib.image import imsave

    num_rows, num_columns = values.shape
    rows = np.linspace(0, num_rows - 1, min(num_rows, _IMAGE_ROWS)).astype(np.intp)
    columns = np.linspace(0, num_columns - 1, min(num_columns, _IMAGE_COLUMNS)).astype(np.intp)
    file = io.BytesIO()
    imsave(file, values[np.ix_(rows, columns)], cmap="magma", origin="lower", metadata={"Software": ""})
    return (
        f'<img class="pixels" alt="{label}" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'
    )


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _axes(figure: "Figure", x_label: str, y_label: str) -> Any:  # noqa: ANN401 - matplotlib has no public type
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label, fontsize=8, color=_INK)
    axes.set_ylabel(y_label, fontsize=8, color=_INK)
    axes.tick_params(labelsize=7, colors=_INK, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_INK)
    axes.patch.set_alpha(0)
    return axes


def _svg(figure: "Figure", label: str) -> str:
    """The figure as SVG for a page: without a fixed size, with text as text, and reproducible."""
    import matplotlib as mpl

    figure.patch.set_alpha(0)
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", _REMARKS)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, colour in _COLOURS.items():
        text = text.replace(stand_in, colour)
    width, height = (round(value * 72) for value in figure.get_size_inches())
    _, _, rest = text.partition(">")
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" class="chart">{rest}'
