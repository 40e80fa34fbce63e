"""`EncoderContract`: the tests that each encoder has to pass."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from headrace.encoders import Encoder
from headrace.encoders.output import checked
from headrace.encoders.outputs import outputs_of
from headrace.output_kinds import OutputKind
from headrace.testing.members import missing_members

Row = list[Tensor]
"""The values of each output of one row, without padding."""


class EncoderContract:
    """Tests of an encoder. Subclass it in a test module as `class TestMine(EncoderContract)`.

    The subclass provides a pytest fixture `encoder`, on the CPU.

    Attributes:
        tolerance: largest difference that rounding of float32 sums explains, as a share of the largest value.
        differing_codes: largest share of different codes.
        is_local: whether frames depend on no audio beyond `info.context`, which is then checked; not with attention.
    """

    tolerance = 2e-5
    differing_codes = 0.01
    is_local = False

    def test_the_info_is_complete_and_plausible(self, encoder: Encoder) -> None:
        """It has all values that the pipeline relies on."""
        assert missing_members(encoder, Encoder) == []
        assert min(encoder.sample_rate_hz, encoder.num_channels, encoder.hop) > 0
        assert encoder.fingerprint
        assert encoder.fingerprint == encoder.fingerprint, "it is another one each time"
        info = encoder.info
        assert info.window % encoder.hop == info.overlap % encoder.hop == 0
        assert info.window > info.overlap > 2 * info.context
        assert all(encoder.hop % output.hop == 0 for output in outputs_of(encoder) if output.has_time)

    def test_lengths_are_as_declared_for_every_input_length(self, encoder: Encoder) -> None:
        """Input shorter than one hop gives one frame, and all values are finite."""
        for num_frames in _lengths(encoder):
            (row,) = _rows(encoder, [_clip(encoder, num_frames, 0)])
            if not hasattr(encoder, "outputs"):
                assert len(row[0]) == encoder.num_latent_frames(num_frames)
            assert all(len(values) and bool(values.isfinite().all()) for values in row)

    def test_input_shorter_by_k_hops_gives_k_frames_fewer(self, encoder: Encoder) -> None:
        """Windows rely on it: T(N - k hop) = T(N) - k."""
        total = 2 * encoder.sample_rate_hz + 123
        clip = _clip(encoder, total, 0)
        (whole,) = _rows(encoder, [clip])
        (part,) = _rows(encoder, [clip[:, : total - 3 * encoder.hop]])
        for output, values, shorter in zip(outputs_of(encoder), whole, part, strict=True):
            if output.has_time:
                assert len(values) - len(shorter) == 3 * encoder.hop // output.hop

    def test_input_that_begins_k_hops_later_gives_the_same_frames_from_frame_k_on(self, encoder: Encoder) -> None:
        """Windows rely on it. Frames within `info.context` of the beginning may differ."""
        if not self.is_local:
            return
        clip, cut = _clip(encoder, 3 * encoder.sample_rate_hz + 123, 0), 3 * encoder.hop
        (whole,), (later,) = _rows(encoder, [clip]), _rows(encoder, [clip[:, cut:]])
        found, expected = list[Tensor](), list[Tensor]()
        for output, values, others in zip(outputs_of(encoder), whole, later, strict=True):
            near = math.ceil(encoder.info.context / output.hop) if output.hop else len(others)
            found.append(others[near:])
            expected.append(values[near + (int(cut / output.hop) if output.hop else len(values)) :])
        self._assert_same(encoder, [found], [expected])

    def test_the_result_for_a_row_is_the_same_alone_and_in_any_batch(self, encoder: Encoder) -> None:
        """It depends neither on other rows nor on padding."""
        clips = [_clip(encoder, num_frames, seed) for seed, num_frames in enumerate(_lengths(encoder))]
        together = _rows(encoder, clips)
        self._assert_same(encoder, together, [row for clip in clips for row in _rows(encoder, [clip])])

    def test_the_order_of_the_rows_does_not_matter(self, encoder: Encoder) -> None:
        """A reversed batch gives its results in reversed order."""
        clips = [_clip(encoder, encoder.sample_rate_hz // (row + 1), row) for row in range(3)]
        self._assert_same(encoder, _rows(encoder, clips), _rows(encoder, clips[::-1])[::-1])

    def test_encoding_is_deterministic(self, encoder: Encoder) -> None:
        """Encoding a batch twice gives equal bits."""
        clips = [_clip(encoder, encoder.sample_rate_hz, seed) for seed in range(2)]
        for one, other in zip(_rows(encoder, clips), _rows(encoder, clips), strict=True):
            assert all(map(torch.equal, one, other))

    def test_threads_may_share_an_encoder_that_declares_it(self, encoder: Encoder) -> None:
        """Each thread gets the results of its own batch, and the batches have different lengths."""
        if not encoder.info.is_concurrent:
            return
        rate = encoder.sample_rate_hz
        batches = [[_clip(encoder, rate // (6 + i), i), _clip(encoder, rate // (9 + i), 9 + i)] for i in range(4)]
        expected = [row for batch in batches for row in _rows(encoder, batch)]
        with ThreadPoolExecutor(len(batches)) as pool:
            for _ in range(3):
                found = list(pool.map(lambda batch: _rows(encoder, batch), batches))
                self._assert_same(encoder, [row for rows in found for row in rows], expected)

    def _assert_same(self, encoder: Encoder, found: Sequence[Row], expected: Sequence[Row]) -> None:
        """Compare rows; floats by the largest value of all rows, codes by the share of different ones."""
        for number, output in enumerate(outputs_of(encoder)):
            pairs = [(one[number], other[number]) for one, other in zip(found, expected, strict=True)]
            assert all(one.shape == other.shape for one, other in pairs), output.name
            if not any(one.numel() for one, _ in pairs):
                continue
            one, other = (torch.cat([pair[side] for pair in pairs]).double() for side in (0, 1))
            if output.kind is OutputKind.CODES:
                assert float((one != other).double().mean()) <= self.differing_codes, output.name
            else:
                assert float((one - other).abs().max()) <= self.tolerance * float(other.abs().max()), output.name


def _clip(encoder: Encoder, num_frames: int, seed: int) -> Tensor:
    """Quiet noise (channels, frames)."""
    generator = torch.Generator().manual_seed(seed)
    return 0.1 * torch.randn(encoder.num_channels, num_frames, generator=generator)


def _lengths(encoder: Encoder) -> list[int]:
    hop, rate = encoder.hop, encoder.sample_rate_hz
    found = [1, hop - 1, hop, hop + 1, rate // 200, 399, 400, 401, 3 * hop + 7, rate, round(1.7 * rate) + 3]
    return [length for length in found if length]


def _rows(encoder: Encoder, clips: Sequence[Tensor]) -> list[Row]:
    """The results for a batch of clips, row by row. Values after a row's length must be zeros, or are not looked at."""
    lengths = torch.tensor([clip.shape[1] for clip in clips])
    batch = torch.zeros(len(clips), encoder.num_channels, int(lengths.max()))
    for row, clip in enumerate(clips):
        batch[row, :, : clip.shape[1]] = clip
    found = checked(encoder, len(clips), encoder.encode(given := batch.clone(), given_lengths := lengths.clone()))
    assert torch.equal(given, batch), "encode changes its argument: other encoders get the same audio"
    assert torch.equal(given_lengths, lengths), "encode changes its argument"
    return [[one.values[row, : int(one.lengths[row])] for one in found] for row in range(len(clips))]
