"""Audio of jobs is decoded row by row on threads, normalised over the whole recording, and comes in order."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headrace.encoders.protocol import EncoderInfo
from headrace.encoding import reading
from headrace.encoding.batches import ClipPiece, EncodingBatch
from headrace.encoding.clips import AudioForm
from headrace.encoding.reading import DecodedJob, EncodingJob, JobDecoder, measure, moments, normalized
from headrace.encoding.windows import ClipWindow
from headrace.errors import SampleError

RATE_HZ = 10
FORM = AudioForm(RATE_HZ, 2)


class Clip:
    """A recording of noise around 0.5."""

    def __init__(self, num_frames):
        self.samples = np.random.default_rng(num_frames).normal(0.5, 0.2, (2, num_frames)).astype(np.float32)

    def num_frames_at(self, sample_rate_hz):
        assert sample_rate_hz == RATE_HZ
        return self.samples.shape[1]


CLIPS = [Clip(1500), Clip(40)]


@pytest.fixture(autouse=True)
def in_memory(monkeypatch):
    """Clips that are read from memory."""
    monkeypatch.setattr(reading, "read_clip", lambda clip, form, start, stop: clip.samples[:, start:stop])


def decoder(*, normalizes):
    info = EncoderInfo(0, 100, 20, normalizes=normalizes)
    return JobDecoder(
        SimpleNamespace(sample_rate_hz=RATE_HZ, num_channels=2, info=info), num_threads=2, pin_memory=False
    )


def jobs():
    long = ClipPiece(0, 1, ClipWindow(100, 200))
    short = ClipPiece(1, 0, ClipWindow(0, 40))
    return [EncodingJob(0, CLIPS, EncodingBatch(pieces)) for pieces in ((long, short), (short,))]


def test_moments_of_a_recording_that_is_read_in_parts_are_those_of_the_whole():
    assert measure(CLIPS[0], FORM) == pytest.approx(moments(CLIPS[0].samples), rel=1e-5)


def test_rows_are_zero_behind_their_length_and_jobs_come_in_order():
    with decoder(normalizes=False) as threads:
        first, second = threads.read(jobs(), ahead=2)
    assert first.audio.shape == (2, 2, 100)
    assert np.array_equal(first.audio[0], CLIPS[0].samples[:, 100:200])
    assert np.array_equal(first.audio[1, :, :40], CLIPS[1].samples)
    assert not first.audio[1, :, 40:].any()
    assert second.audio.shape == (1, 2, 40)


def test_a_window_is_normalized_by_the_mean_and_variance_of_its_whole_recording():
    with decoder(normalizes=True) as threads:
        first, _ = threads.read(jobs(), ahead=1)
    for row, clip, part in ((0, CLIPS[0], slice(100, 200)), (1, CLIPS[1], slice(0, 40))):
        expected = normalized(clip.samples, *moments(clip.samples))[:, part]
        assert np.allclose(first.audio[row, :, : expected.shape[1]], expected, atol=1e-4)


def test_the_error_of_a_row_is_that_of_its_job(monkeypatch):
    def broken(clip, form, start, stop):
        raise SampleError("a.tar: sample 'b' cannot be decoded")

    monkeypatch.setattr(reading, "read_clip", broken)
    with decoder(normalizes=False) as threads, pytest.raises(SampleError, match="sample 'b'"):
        next(threads.read(jobs(), ahead=1))


def test_halves_of_a_job_are_cut_to_their_longest_row():
    whole = DecodedJob(jobs()[0], torch.arange(400.0).reshape(2, 2, 100))
    first, second = whole.halves()
    assert (first.audio.shape, second.audio.shape) == ((1, 2, 100), (1, 2, 40))
    assert torch.equal(second.audio[0], whole.audio[1, :, :40])
    assert second.job.clip_of(second.job.batch.pieces[0]) is CLIPS[1]
