"""Decoding batches ahead of the devices: every clip on a thread, straight into its row of the batch.

Owns the order of decoding and how far ahead it runs. Batches come out in the order of the jobs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import Batch, Piece
from headrace.encoding.clips import AudioForm, Clip, Samples, read_clip

_STATISTICS_SECONDS = 60.0
_VARIANCE_FLOOR = 1e-7  # as in transformers' feature extractors


@dataclass(frozen=True, slots=True)
class Job:
    """A batch to encode.

    Attributes:
        group: number of the group of shards that it belongs to.
        clips: the clips of that group, which the batch's pieces index.
        batch: which windows of which clips.
    """

    group: int
    clips: Sequence[Clip]
    batch: Batch

    def clip_of(self, piece: Piece) -> Clip:
        """The clip that a piece is cut from."""
        return self.clips[piece.clip]


@dataclass(frozen=True, slots=True)
class DecodedJob:
    """A job and its audio: float32 (B, C, N), zeros behind each row's length, in pinned memory for CUDA."""

    job: Job
    audio: Tensor

    def halves(self) -> "tuple[DecodedJob, DecodedJob]":
        """The same rows as two jobs; each is cut to its longest row."""
        first, second = self.job.batch.halves()
        middle = len(first.pieces)
        return self._with(first, self.audio[:middle]), self._with(second, self.audio[middle:])

    def _with(self, batch: Batch, audio: Tensor) -> "DecodedJob":
        return DecodedJob(Job(self.job.group, self.job.clips, batch), audio[:, :, : batch.num_frames])


class Reader:
    """Decodes jobs on threads for one kind of encoder; used as a context manager."""

    def __init__(self, encoder: Encoder, *, num_threads: int, pin_memory: bool) -> None:
        self._form = AudioForm(encoder.sample_rate_hz, encoder.num_channels)
        self._normalizes = encoder.info.normalizes
        self._pin_memory = pin_memory
        self._pool = ThreadPoolExecutor(num_threads, "headrace-decode")
        self._statistics: dict[Clip, Future[tuple[float, float]]] = {}

    def __enter__(self) -> Self:
        """The reader itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the threads; what has not begun is dropped."""
        self._pool.shutdown(cancel_futures=True)

    def read(self, jobs: Iterable[Job], *, ahead: int) -> Iterator[DecodedJob]:
        """Decoded jobs in order, at most `ahead` of them waiting.

        Raises:
            SampleError: see `read_clip`. An error of `jobs` itself comes after the jobs before it.
        """
        waiting = iter(jobs)
        under_way: deque[tuple[DecodedJob, list[Future[None]]]] = deque()
        failure = self._start_next(waiting, under_way, ahead)
        while under_way:
            decoded, rows = under_way.popleft()
            for row in rows:
                row.result()
            failure = failure or self._start_next(waiting, under_way, 1)
            yield decoded
        if failure is not None:
            raise failure

    def _start_next(
        self, waiting: Iterator[Job], under_way: "deque[tuple[DecodedJob, list[Future[None]]]]", count: int
    ) -> Exception | None:
        """Begin up to `count` jobs. Returns the error that kept the next one from coming."""
        try:
            under_way.extend(self._start(job) for job in islice(waiting, count))
        except Exception as error:  # noqa: BLE001 - raised again, in its turn
            return error
        return None

    def _start(self, job: Job) -> tuple[DecodedJob, list[Future[None]]]:
        pieces = job.batch.pieces
        audio = torch.zeros(len(pieces), self._form.num_channels, job.batch.num_frames, pin_memory=self._pin_memory)
        if self._normalizes:
            self._start_statistics(job)
        rows = [self._pool.submit(self._fill, job, piece, audio[row]) for row, piece in enumerate(pieces)]
        return DecodedJob(job, audio), rows

    def _start_statistics(self, job: Job) -> None:
        """Measure long recordings; queued before the rows that wait for it, so threads cannot all be waiting."""
        for piece in job.batch.pieces:
            clip = job.clip_of(piece)
            if clip not in self._statistics and piece.window.num_frames < clip.num_frames_at(self._form.sample_rate_hz):
                self._statistics[clip] = self._pool.submit(measure, clip, self._form)

    def _fill(self, job: Job, piece: Piece, row: Tensor) -> None:
        clip, window = job.clip_of(piece), piece.window
        samples = read_clip(clip, self._form, window.start, window.stop)
        if self._normalizes:
            measured = self._statistics.get(clip)
            samples = normalized(samples, *(measured.result() if measured else moments(samples)))
        row[:, : window.num_frames] = torch.from_numpy(samples)


def moments(samples: Samples) -> tuple[float, float]:
    """Mean and variance over all channels and frames."""
    return float(samples.mean(dtype=np.float64)), float(samples.var(dtype=np.float64))


def normalized(samples: Samples, mean: float, variance: float) -> Samples:
    """Zero mean and unit variance, as wav2vec2's feature extractor does it."""
    return ((samples - np.float32(mean)) / np.float32(np.sqrt(variance + _VARIANCE_FLOOR))).astype(np.float32)


def measure(clip: Clip, form: AudioForm) -> tuple[float, float]:
    """Mean and variance of a whole recording, read in stretches."""
    total, step = clip.num_frames_at(form.sample_rate_hz), round(_STATISTICS_SECONDS * form.sample_rate_hz)
    sums = np.zeros(2)
    for start in range(0, total, step):
        samples = read_clip(clip, form, start, min(start + step, total)).astype(np.float64)
        sums += samples.sum() / form.num_channels, np.square(samples).sum() / form.num_channels
    mean, square = sums / total
    return float(mean), float(max(0.0, square - mean * mean))
