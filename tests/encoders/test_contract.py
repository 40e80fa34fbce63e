"""The contract of encoders (`headrace.encoders.protocol`), checked for each of them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.encoders import Encoder

TOLERANCE = 2e-5  # relative to the largest latent: only the rounding of float32 sums in another order


def _clip(encoder: Encoder, num_frames: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.1 * torch.randn(encoder.num_channels, num_frames, generator=generator)


def _batch(encoder: Encoder, clips: list[Tensor], filler: float = 0.0) -> tuple[Tensor, Tensor]:
    lengths = [clip.shape[1] for clip in clips]
    batch = torch.full((len(clips), encoder.num_channels, max(lengths)), filler)
    for row, clip in enumerate(clips):
        batch[row, :, : clip.shape[1]] = clip
    return batch, torch.tensor(lengths)


def _lengths(encoder: Encoder) -> list[int]:
    hop, rate = encoder.hop, encoder.sample_rate_hz
    return [1, hop - 1, hop, hop + 1, rate // 200, 399, 400, 401, 3 * hop + 7, rate, round(1.7 * rate) + 3]


def _alone(encoder: Encoder, clip: Tensor) -> Tensor:
    hidden, lengths = encoder.encode(clip[None], torch.tensor([clip.shape[1]]))
    return hidden[0, : int(lengths[0])]


def test_the_info_is_complete_and_plausible(encoder: Encoder) -> None:
    """It has all values that the pipeline relies on."""
    assert isinstance(encoder, Encoder)
    assert encoder.sample_rate_hz > 0
    assert encoder.num_channels > 0
    assert encoder.hop > 0
    assert len(encoder.fingerprint) == 64
    assert encoder.info.window % encoder.hop == 0
    assert encoder.info.overlap % encoder.hop == 0
    assert encoder.info.overlap > 2 * encoder.info.context


def test_output_lengths_are_as_declared_for_every_input_length(encoder: Encoder) -> None:
    """Input shorter than one hop gives one latent frame."""
    for num_frames in _lengths(encoder):
        hidden, lengths = encoder.encode(_clip(encoder, num_frames, 0)[None], torch.tensor([num_frames]))
        assert lengths.tolist() == [encoder.num_latent_frames(num_frames)]
        assert hidden.shape == (1, max(1, int(lengths[0])), encoder.latent_dim)
        assert bool(hidden.isfinite().all())


def test_input_shorter_by_k_hops_gives_k_frames_fewer(encoder: Encoder) -> None:
    """Windows rely on it: T(N - k hop) = T(N) - k."""
    total = 2 * encoder.sample_rate_hz + 123
    for k in range(8):
        assert encoder.num_latent_frames(total - k * encoder.hop) == encoder.num_latent_frames(total) - k


def test_the_result_for_a_row_is_the_same_alone_and_in_any_batch(encoder: Encoder) -> None:
    """It depends neither on other rows nor on padding."""
    clips = [_clip(encoder, num_frames, seed) for seed, num_frames in enumerate(_lengths(encoder))]
    hidden, lengths = encoder.encode(*_batch(encoder, clips))
    scale = float(hidden.abs().max())
    for row, clip in enumerate(clips):
        alone = _alone(encoder, clip)
        assert torch.allclose(hidden[row, : int(lengths[row])], alone, rtol=0, atol=TOLERANCE * scale), clip.shape


def test_the_order_of_the_rows_does_not_matter(encoder: Encoder) -> None:
    """A reversed batch gives its latents in reversed order."""
    clips = [_clip(encoder, encoder.sample_rate_hz // (row + 1), row) for row in range(3)]
    there, _ = encoder.encode(*_batch(encoder, clips))
    back, _ = encoder.encode(*_batch(encoder, clips[::-1]))
    assert torch.allclose(there, back.flip(0), rtol=0, atol=TOLERANCE * float(there.abs().max()))


def test_latents_after_the_length_are_zeros(encoder: Encoder) -> None:
    """Stored latents contain no trace of padding."""
    clips = [_clip(encoder, encoder.sample_rate_hz, 0), _clip(encoder, encoder.sample_rate_hz // 4, 1)]
    hidden, lengths = encoder.encode(*_batch(encoder, clips))
    assert not bool(hidden[1, int(lengths[1]) :].any())


def test_encoding_is_deterministic(encoder: Encoder) -> None:
    """Encoding a batch twice gives equal bits."""
    batch = _batch(encoder, [_clip(encoder, encoder.sample_rate_hz, seed) for seed in range(2)])
    assert torch.equal(encoder.encode(*batch)[0], encoder.encode(*batch)[0])


def test_threads_may_share_an_encoder_that_declares_it(encoder: Encoder) -> None:
    """Each thread gets the latents of its own batch, and the batches have different lengths."""
    if not encoder.info.is_concurrent:
        pytest.skip("one batch at a time")
    rate = encoder.sample_rate_hz
    batches = [
        _batch(encoder, [_clip(encoder, rate // (6 + i), i), _clip(encoder, rate // (9 + i), 9 + i)]) for i in range(4)
    ]
    expected = [encoder.encode(*batch)[0] for batch in batches]
    with ThreadPoolExecutor(len(batches)) as pool:
        for found in (list(pool.map(lambda batch: encoder.encode(*batch)[0], batches)) for _ in range(3)):
            for alone, together in zip(expected, found, strict=True):
                assert torch.allclose(alone, together, rtol=0, atol=TOLERANCE * float(alone.abs().max()))


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
