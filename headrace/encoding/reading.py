"""Decodes the audio of jobs on threads, ahead of the devices: each row of a batch is one task.

Decoded jobs come out in the order of the jobs. Texts are tokens already: nothing decodes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import ClipPiece, EncodingBatch
from headrace.encoding.clips import AudioClip, AudioForm, FloatSamples, read_clip
from headrace.encoding.texts import TextItem
from headrace.ordered import start_in_order

ReadClip = Callable[[AudioClip, AudioForm, int, int], FloatSamples]
"""A function that reads as `read_clip` does."""

_STATISTICS_SECONDS = 60.0
_VARIANCE_FLOOR = 1e-7  # as in transformers' feature extractors


@dataclass(frozen=True, slots=True)
class EncodingJob:
    """A batch to encode.

    Attributes:
        group: number of the group of shards.
        clips: the clips, or the texts, of that group; `ClipPiece.clip` is a position in this list.
        batch: the windows to encode.
    """

    group: int
    clips: Sequence[AudioClip | TextItem]
    batch: EncodingBatch

    def clip_of(self, piece: ClipPiece) -> AudioClip | TextItem:
        """The clip of a piece."""
        return self.clips[piece.clip]

    def audio_of(self, piece: ClipPiece) -> AudioClip:
        """The clip of a piece of audio."""
        return cast("AudioClip", self.clip_of(piece))


@dataclass(frozen=True, slots=True)
class DecodedJob:
    """A job and its audio: float32 (B, C, N), zeros after each row's length, in pinned memory for CUDA.

    In place of audio, texts have the numbers of their tokens, int64 (B, 1, N).
    """

    job: EncodingJob
    audio: Tensor

    def halves(self) -> "tuple[DecodedJob, DecodedJob]":
        """Two jobs with half of the rows each, cut to their longest row."""
        first, second = self.job.batch.halves()
        middle = len(first.pieces)
        return self._with(first, self.audio[:middle]), self._with(second, self.audio[middle:])

    def _with(self, batch: EncodingBatch, audio: Tensor) -> "DecodedJob":
        return DecodedJob(EncodingJob(self.job.group, self.job.clips, batch), audio[:, :, : batch.num_frames])


class JobDecoder:
    """Decodes jobs on threads, for one encoder; used as a context manager."""

    def __init__(self, encoder: Encoder, *, num_threads: int, pin_memory: bool, read: ReadClip | None = None) -> None:
        self._read_clip = read or read_clip
        self._form = AudioForm(encoder.sample_rate_hz, encoder.num_channels)
        self._normalizes = encoder.info.normalizes
        self._pin_memory = pin_memory
        self._pool = ThreadPoolExecutor(num_threads, "headrace-decode")
        self._statistics: dict[AudioClip, Future[tuple[float, float]]] = {}

    def __enter__(self) -> Self:
        """Return the decoder itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the threads and drop tasks that have not begun."""
        self._pool.shutdown(cancel_futures=True)

    def read(self, jobs: Iterable[EncodingJob], *, ahead: int) -> Iterator[DecodedJob]:
        """Decode jobs, in order.

        Args:
            jobs: read only as far as needed.
            ahead: the most jobs that are decoded, or being decoded, before the caller takes them.

        Raises:
            SampleError: see `read_clip`. An error of `jobs` itself is raised after the jobs before it.
        """
        return start_in_order(self._start, jobs, window=ahead)

    def _start(self, job: EncodingJob) -> "_Decoding":
        pieces = job.batch.pieces
        audio = torch.zeros(len(pieces), self._form.num_channels, job.batch.num_frames, pin_memory=self._pin_memory)
        if self._normalizes:
            self._start_statistics(job)
        rows = [self._pool.submit(self._fill, job, piece, audio[row]) for row, piece in enumerate(pieces)]
        return _Decoding(DecodedJob(job, audio), rows)

    def _start_statistics(self, job: EncodingJob) -> None:
        """Measure clips of several windows.

        The measurements are queued before the rows that need them, so that not all threads can wait for them.
        """
        for piece in job.batch.pieces:
            clip = job.audio_of(piece)
            if clip not in self._statistics and piece.window.num_frames < clip.num_frames_at(self._form.sample_rate_hz):
                self._statistics[clip] = self._pool.submit(measure, clip, self._form, self._read_clip)

    def _fill(self, job: EncodingJob, piece: ClipPiece, row: Tensor) -> None:
        clip, window = job.audio_of(piece), piece.window
        samples = self._read_clip(clip, self._form, window.start, window.stop)
        if self._normalizes:
            measured = self._statistics.get(clip)
            samples = normalized(samples, *(measured.result() if measured else moments(samples)))
        row[:, : window.num_frames] = torch.from_numpy(samples)


class TokenReader:
    """Makes the input of jobs of texts; in the place of a `JobDecoder`."""

    def __init__(self, *, pin_memory: bool) -> None:
        self._pin_memory = pin_memory

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: it has no threads."""

    def read(self, jobs: Iterable[EncodingJob], *, ahead: int) -> Iterator[DecodedJob]:  # noqa: ARG002 - nothing waits
        """The tokens of jobs, in order."""
        for job in jobs:
            pieces = job.batch.pieces
            tokens = torch.zeros(len(pieces), 1, job.batch.num_frames, dtype=torch.int64, pin_memory=self._pin_memory)
            for row, piece in enumerate(pieces):
                text = job.clip_of(piece)
                assert isinstance(text, TextItem)
                tokens[row, 0, : len(text.ids)] = torch.from_numpy(text.ids)
            yield DecodedJob(job, tokens)


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A job whose rows are being decoded; a `headrace.ordered.Pending`."""

    decoded: DecodedJob
    rows: list[Future[None]]

    def result(self) -> DecodedJob:
        """Wait for all rows."""
        for row in self.rows:
            row.result()
        return self.decoded

    def cancel(self) -> bool:
        """Cancel the rows that no thread has begun."""
        cancelled = [row.cancel() for row in self.rows]
        return all(cancelled)


def moments(samples: FloatSamples) -> tuple[float, float]:
    """Mean and variance of all channels and frames."""
    return float(samples.mean(dtype=np.float64)), float(samples.var(dtype=np.float64))


def normalized(samples: FloatSamples, mean: float, variance: float) -> FloatSamples:
    """The samples with zero mean and unit variance, computed as wav2vec2's feature extractor does."""
    return ((samples - np.float32(mean)) / np.float32(np.sqrt(variance + _VARIANCE_FLOOR))).astype(np.float32)


def measure(clip: AudioClip, form: AudioForm, read: ReadClip | None = None) -> tuple[float, float]:
    """Mean and variance of a whole clip, which is read a minute at a time."""
    total, step = clip.num_frames_at(form.sample_rate_hz), round(_STATISTICS_SECONDS * form.sample_rate_hz)
    sums = np.zeros(2)
    for start in range(0, total, step):
        samples = (read or read_clip)(clip, form, start, min(start + step, total)).astype(np.float64)
        sums += samples.sum() / form.num_channels, np.square(samples).sum() / form.num_channels
    mean, square = sums / total
    return float(mean), float(max(0.0, square - mean * mean))
