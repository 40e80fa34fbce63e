"""The wav2vec2 family: lengths by its kernels, and a group norm that leaves padding out."""

from types import SimpleNamespace

import torch
from torch import nn

from headrace.encoders.transformers_waveform import MaskedGroupNorm, Waveform


def test_padding_of_any_length_and_content_leaves_a_group_norm_as_it_is():
    norm = nn.GroupNorm(3, 3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    masked = MaskedGroupNorm(norm)
    rows = [torch.randn(3, length, generator=torch.Generator().manual_seed(length)) for length in (9, 4)]
    batch = torch.full((2, 3, 12), 7.0)
    for row, values in zip(batch, rows, strict=True):
        row[:, : values.shape[1]] = values
    masked.expect(torch.tensor([9, 4]))
    found = masked(batch)
    for row, values in zip(found, rows, strict=True):
        assert torch.allclose(row[:, : values.shape[1]], norm(values[None])[0], atol=1e-5)


def test_frames_are_counted_by_whole_kernels():
    config = SimpleNamespace(
        conv_kernel=(10, 3, 2), conv_stride=(5, 2, 2), hidden_size=4, num_hidden_layers=1, model_type="other"
    )
    extractor = SimpleNamespace(sampling_rate=100, do_normalize=True)
    family = Waveform(SimpleNamespace(config=config), extractor)
    assert (family.hop, family.min_frames) == (20, 30)
    counts = {num_frames: family.num_latent_frames(num_frames) for num_frames in (29, 30, 49, 50)}
    assert counts == {29: 0, 30: 1, 49: 1, 50: 2}
