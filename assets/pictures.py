"""Draws small pictures for asset metadata: PNG in a Markdown data URI, a few kilobytes, because the event log has them.

Reads no files. `partition_pictures` draws those of partitions. matplotlib is imported late, and without pyplot, which
keeps global state.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headrace.upkeep.column_summary import ColumnSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 72
_COLOUR = "#2f6f8f"
_MOST_COLUMNS = 12
_COLUMNS_IN_A_ROW = 3
_FINEST, _WIDEST = 1e-9, 1e300


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

    Facts that are text (keys and paths) are left out, and so are columns whose range no axis can show.
    """
    several = [summary for summary in summaries if summary.num_distinct > 1 and _has_axis(summary)]
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
        axes.set_title(summary.label[:24].replace("$", r"\$"), fontsize=6, loc="left", pad=2)
        axes.tick_params(labelsize=5, length=2)
        axes.spines[["top", "right", "left"]].set_visible(False)
    for axes in grid[len(drawn) :]:
        axes.set_axis_off()
    return _markdown(figure, "histograms of the columns; of text, its length")


def _has_axis(summary: ColumnSummary) -> bool:
    """Whether float64 has the digits for the marks of an axis from the smallest value to the largest."""
    low, high = summary.quantiles[0], summary.quantiles[-1]
    width, largest = high - low, max(abs(low), abs(high))
    return width == 0 or max(_FINEST * largest, 1 / _WIDEST) < width < _WIDEST


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI)
    figure.subplots_adjust(left=0.08, right=0.98, bottom=0.4 / height, top=1 - 0.2 / height, hspace=0.9)
    return figure


def _markdown(figure: "Figure", label: str) -> str:
    """The figure as PNG in Markdown."""
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return f"![{label}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
