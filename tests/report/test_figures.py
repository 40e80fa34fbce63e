"""Tests of `headrace.report.figures`."""

import re
import warnings

import numpy as np
import pytest

from headrace.report import figures as report_figures


def test_ids_in_the_users_text_are_not_changed():
    drawing = report_figures.bars({"train": {'a id="x" "url(#x)': 1.0, r"$\oops$": 2.0}})
    assert 'a id="x" "url(#x)' in report_figures.with_own_ids(f'<p>"url(#y)</p>{drawing}')


@pytest.mark.medium
def test_names_that_matplotlib_cannot_draw_cause_no_warning():
    """The browser draws them: they are text in the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawing = report_figures.bars({"train" * 60: {"日本語": 1.0, "long " * 80: 2.0}})
    assert "日本語" in drawing


@pytest.mark.parametrize("num_splits", [1, 3, 9])
def test_the_legend_of_hours_is_outside_of_the_bars(monkeypatch, num_splits):
    drawn = []
    monkeypatch.setattr(report_figures, "_svg", lambda figure, label: drawn.append(figure))
    report_figures.bars({f"split{number}": {"dog": 3.0, "cat": 1.0} for number in range(num_splits)})
    (figure,) = drawn
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1
    assert axes.get_window_extent().height > 25


@pytest.mark.parametrize(("numbers", "ticks"), [([1], ["1"]), ([7, 8], ["7", "8"])])
def test_growth_is_counted_in_whole_snapshots(numbers, ticks):
    texts = re.findall(r"<text[^>]*>([^<]*)<", report_figures.growth(numbers, [2.0] * len(numbers)))
    assert texts[: texts.index("snapshot")] == ticks


def test_frames_are_an_image_and_a_vector_is_a_chart_of_its_values():
    """A vector has no range over time to be scaled by: it would be a black bar."""
    assert "<img" in report_figures.latents(np.eye(3))
    one, other = (report_figures.latents(np.array([values])) for values in ([0.0, 1, 2], [2.0, 1, np.nan]))
    assert 'aria-label="vector"' in one
    assert one != other
