"""What tests of any folder may ask for."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Assets and reports without their pictures, which are a third of a small build: for tests of other things."""
    for name in ("histogram", "waveforms", "latents_below_spectrogram"):
        monkeypatch.setattr(f"assets.metadata.{name}", lambda *data: "a picture")
    for name in ("histogram", "bars", "growth", "waveform", "spectrogram", "latents"):
        monkeypatch.setattr(f"headrace.report.figures.{name}", lambda *data: "<svg></svg>")
