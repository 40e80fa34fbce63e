"""Windows of long recordings: they cover everything, and no seam can be seen."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import encoders
from headrace.encoders import Encoder, EncoderInfo
from headrace.encoding.assembly import Assembly
from headrace.encoding.batches import ClipPiece, plan_batches
from headrace.encoding.windows import blend_weights, plan_windows
from tests.support.audio_shards import noise
from tests.support.tiny_models import save


class Shape:
    """Facts of an encoder that the arithmetic needs; `shortfall` frames are lost at the end, as in wav2vec2."""

    def __init__(self, hop: int, context: int, window: int, overlap: int, shortfall: int) -> None:
        self.hop, self.shortfall, self.latent_dim = hop, shortfall, 1
        self.info = EncoderInfo(context, window, overlap)

    def num_latent_frames(self, num_frames: int) -> int:
        return max(1, num_frames // self.hop + 1 - self.shortfall)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Encoders that keep the promises of `EncoderInfo`."""
    hop = draw(st.integers(1, 20))
    shortfall = draw(st.integers(0, 2))
    context = draw(st.integers(max(1, shortfall) * hop, 5 * hop))
    overlap = hop * (2 * -(-context // hop) + draw(st.integers(1, 5)))
    return Shape(hop, context, 2 * overlap + hop * draw(st.integers(0, 30)), overlap, shortfall)


@given(shapes(), st.integers(1, 3000))
def test_windows_cover_the_recording_and_begin_on_the_hop(shape: Shape, num_frames: int) -> None:
    windows = plan_windows(num_frames, shape)
    assert windows[0].start == 0
    assert windows[-1].stop == num_frames
    assert all(window.start % shape.hop == 0 and window.num_frames <= shape.info.window for window in windows)
    for left, right in pairwise(windows):
        assert left.stop - right.start == shape.info.overlap
        assert right.stop > left.stop


@given(shapes(), st.integers(1, 3000))
def test_weights_of_all_windows_add_up_to_one_everywhere(shape: Shape, num_frames: int) -> None:
    windows = plan_windows(num_frames, shape)
    total = np.zeros(shape.num_latent_frames(num_frames), np.float64)
    for i, window in enumerate(windows):
        num_latent = shape.num_latent_frames(window.num_frames)
        weights = blend_weights(windows, i, num_latent, shape.info, shape.hop)
        first = window.start // shape.hop
        total[first : first + num_latent] += weights[: len(total) - first]
    assert np.allclose(total, 1, atol=1e-6)


@given(shapes(), st.integers(1, 3000))
def test_latents_that_feel_a_cut_have_no_weight(shape: Shape, num_frames: int) -> None:
    windows = plan_windows(num_frames, shape)
    for i, window in enumerate(windows):
        num_latent = shape.num_latent_frames(window.num_frames)
        position = np.arange(num_latent) * shape.hop
        weights = blend_weights(windows, i, num_latent, shape.info, shape.hop)
        if i > 0:
            assert not weights[position < shape.info.context].any()
        if i + 1 < len(windows):
            assert not weights[position + shape.info.context > window.num_frames].any()


@given(shapes(), st.lists(st.integers(1, 2000), min_size=1, max_size=30), st.integers(1, 5000))
def test_batches_hold_every_window_once_within_the_budget(shape: Shape, lengths: list[int], budget: int) -> None:
    windows = [plan_windows(length, shape) for length in lengths]
    batches = plan_batches(windows, budget)
    pieces = [(piece.clip, piece.index) for batch in batches for piece in batch.pieces]
    assert sorted(pieces) == [(i, k) for i, parts in enumerate(windows) for k in range(len(parts))]
    for batch in batches:
        assert len(batch.pieces) == 1 or batch.num_frames * len(batch.pieces) <= budget
    longest = [batch.num_frames for batch in batches]
    assert longest == sorted(longest, reverse=True)


def _in_windows(encoder: Encoder, samples: np.ndarray, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    windows = plan_windows(len(samples), encoder)
    assembly = Assembly((windows,), (len(samples),))
    whole = None
    for i in np.random.default_rng(0).permutation(len(windows)):  # devices answer in any order
        part = torch.from_numpy(samples[windows[i].start : windows[i].stop])
        hidden, _ = encoder.encode(part[None, None], torch.tensor([len(part)]))
        whole = assembly.add(ClipPiece(0, int(i), windows[i]), (hidden[0].to(dtype),), encoder)
    assert whole is not None
    return whole[0]


def _cut(encoder: Encoder, window_seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an encoder take short windows, so that there are many seams."""
    info = encoder.info
    window = max(2 * info.overlap, round(window_seconds * encoder.sample_rate_hz) // encoder.hop * encoder.hop)
    monkeypatch.setattr(encoder, "info", EncoderInfo(info.context, window, info.overlap, info.normalizes))


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["crepe", "log_mel"])
def test_encoders_of_finite_context_give_the_same_in_windows_as_whole(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To rounding: no seam at all."""
    encoder = encoders.load(kind, {})
    samples = noise(16_000 * 6 + 77, seed=0)
    whole, _ = encoder.encode(torch.from_numpy(samples)[None, None], torch.tensor([len(samples)]))
    _cut(encoder, 0.5, monkeypatch)
    assert len(plan_windows(len(samples), encoder)) > 5
    assert torch.allclose(_in_windows(encoder, samples), whole[0], atol=1e-4)
    half = _in_windows(encoder, samples, torch.float16).float()
    assert torch.allclose(half, whole[0].half().float(), atol=1e-2)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["hubert", "whisper", "encodec_causal"])
def test_a_seam_of_a_transformer_is_no_rougher_than_the_rest(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps from frame to frame at the seams are like those elsewhere."""
    encoder = encoders.load("transformers", {"model": str(save(name, tmp_path))})
    samples = noise(encoder.sample_rate_hz * 20, seed=0)
    _cut(encoder, 5, monkeypatch)
    latents = _in_windows(encoder, samples)
    assert len(latents) == encoder.num_latent_frames(len(samples))
    steps = (latents[1:] - latents[:-1]).norm(dim=1)
    seams = torch.zeros(len(steps), dtype=torch.bool)
    for window in plan_windows(len(samples), encoder)[1:]:
        first = window.start // encoder.hop
        seams[first : first + encoder.info.overlap // encoder.hop] = True
    assert float(steps[seams].max()) <= 1.5 * float(steps[~seams].max())
