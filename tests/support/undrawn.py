"""Builds without images, which take a third of the time of a small build. Tests of images draw."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def nothing_drawn() -> Iterator[None]:
    """Omit the images of assets and reports. Also a decorator, for fixtures of modules that build a data set once."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("histogram", "waveforms", "latents_below_spectrogram"):
            patch.setattr(f"headrace_dagster.assets.metadata.{name}", lambda *data: "a picture")
        patch.setattr("headrace_dagster.assets.column_metadata.column_histograms", lambda summaries: "a picture")
        patch.setattr("headrace_dagster.assets.views.share_bars", lambda shares: "a picture")
        for name in ("histogram", "bars", "growth", "waveform", "spectrogram", "latents"):
            patch.setattr(f"headrace.report.page.figures.{name}", lambda *data: "<svg></svg>")
        yield
