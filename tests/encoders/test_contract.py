"""The contract of encoders (`headrace.testing.EncoderContract`), checked for each of them."""

from typing import Any

import pytest
import torch

from headrace import encoders
from headrace.encoders import Encoder
from headrace.testing import EncoderContract


class TestEachKind(EncoderContract):
    """The encoders of the fixture `encoder`."""

    @pytest.fixture(autouse=True)
    def _locality(self, kind_and_settings: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self, "is_local", kind_and_settings[0] != "transformers")


def test_latents_after_the_length_are_zeros(encoder: Encoder) -> None:
    """Stored latents contain no trace of padding."""
    rate = encoder.sample_rate_hz
    batch = torch.zeros(2, encoder.num_channels, rate)
    batch[:, :, : rate // 4] = 0.1
    batch[0, :, rate // 4 :] = 0.1
    hidden, lengths = encoder.encode(batch, torch.tensor([rate, rate // 4]))
    assert not bool(hidden[1, int(lengths[1]) :].any())


def test_the_fingerprint_is_computed_without_loading_the_encoder(
    encoder: Encoder, kind_and_settings: tuple[str, dict[str, Any]]
) -> None:
    """Finding stale partitions then loads no model. A second load gives the same fingerprint."""
    assert encoders.fingerprint(*kind_and_settings) == encoder.fingerprint
    assert encoders.load(*kind_and_settings).fingerprint == encoder.fingerprint


@pytest.mark.parametrize("bad", [{"no_such_setting": 1}])
def test_the_error_about_an_unknown_setting_names_it(
    kind_and_settings: tuple[str, dict[str, Any]], bad: dict[str, Any]
) -> None:
    """A typing error in the YAML does not silently mean a default."""
    kind, settings = kind_and_settings
    with pytest.raises(ValueError, match="no_such_setting"):
        encoders.load(kind, {**settings, **bad})
