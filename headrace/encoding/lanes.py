"""One encoder on one device: copy in, compute, check, copy out, and what to do when its memory runs out.

On CUDA a lane serves two threads at a time. They share the stream that computes, and each has one of its own that
copies, so the copies of one batch run beside the computing of the other.

On a CPU a lane serves a thread per core, each with a batch of its own. Batches do not wait for each other, while the
threads of one batch wait for the slowest at every layer: as soon as something else runs on one of the cores, decoding
for instance, all of them stand still.
"""

import logging
import threading
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.encoders import output
from headrace.encoders.framing import zero_padding
from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import Piece
from headrace.encoding.reading import DecodedJob, Job
from headrace.errors import BuildError, HeadraceError, SampleError

_log = logging.getLogger(__name__)

_MOST_CPU_BATCHES = 16  # at a time on one machine: each holds the activations of a row of up to a window


@dataclass(frozen=True, slots=True)
class EncodedJob:
    """Latents of a batch: for each piece (T, D) on the CPU, in the dtype they are stored in.

    Attributes:
        group: number of the group of shards.
        rows: pieces and their latents.
        num_padded_frames: PCM frames that the encoder was given, padding included.
        busy_seconds: how long the device computed.
    """

    group: int
    rows: tuple[tuple[Piece, Tensor], ...]
    num_padded_frames: int
    busy_seconds: float


@dataclass(slots=True)
class Budget:
    """The most PCM frames that a batch may hold; halved, for all lanes, each time that memory runs out."""

    num_frames: int
    halvings: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def halve(self, failed_frames: int) -> None:
        """Learn that a batch of so many frames did not fit."""
        with self._lock:
            if failed_frames > self.num_frames:
                return  # learnt meanwhile from another batch
            self.num_frames = max(1, failed_frames // 2)
            self.halvings += 1
            if self.halvings == 1:
                _log.warning(
                    "out of memory at a batch of %d PCM frames: batches are halved from here on", failed_frames
                )


class Lane:
    """Runs batches on the device of one encoder; may be called from `num_slots` threads at once.

    Attributes:
        num_slots: how many batches may be under way.
        num_computing: how many of them compute at the same time.
    """

    def __init__(self, encoder: Encoder, dtype: torch.dtype, budget: Budget, num_cores: int) -> None:
        self._encoder, self._device, self._dtype, self._budget = encoder, torch.device(encoder.device), dtype, budget
        self._lock = threading.Lock()
        self.num_computing = 1
        if not self.is_cuda and encoder.info.is_concurrent:
            self.num_computing = min(_MOST_CPU_BATCHES, num_cores)
        self.num_slots = 2 if self.is_cuda else self.num_computing
        self._num_threads = num_cores // self.num_computing
        self._computing = torch.cuda.Stream(self._device) if self.is_cuda else None  # type: ignore[no-untyped-call]

    @property
    def is_cuda(self) -> bool:
        """Whether it is a CUDA GPU."""
        return self._device.type == "cuda"

    @torch.inference_mode()
    def run(self, decoded: DecodedJob) -> list[EncodedJob]:
        """Encode a batch, in several parts where its memory does not suffice for the whole.

        Raises:
            SampleError: latents are not finite.
            BuildError: not even one row fits into the memory, or the encoder fails or gives what it did not promise.
        """
        batch = decoded.job.batch
        num_frames, num_rows = batch.num_frames * len(batch.pieces), len(batch.pieces)
        if num_rows > 1 and num_frames > self._budget.num_frames:
            return self._halves(decoded)
        try:
            return [self._encode(decoded)]
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            if num_rows == 1:
                raise _does_not_fit(decoded, self._device) from error
        if self.is_cuda:
            torch.cuda.empty_cache()
        self._budget.halve(num_frames)
        return self._halves(decoded)

    def _halves(self, decoded: DecodedJob) -> list[EncodedJob]:
        return [encoded for half in decoded.halves() for encoded in self.run(half)]

    def _encode(self, decoded: DecodedJob) -> EncodedJob:
        lengths = torch.tensor([piece.window.num_frames for piece in decoded.job.batch.pieces])
        compute = self._on_cuda if self.is_cuda else self._on_cpu
        hidden, flaws, num_latent, busy_seconds = compute(decoded.job, decoded.audio, lengths)
        pieces = decoded.job.batch.pieces
        for row, piece in enumerate(pieces):
            self._check_length(decoded.job, piece, int(num_latent[row]), hidden.shape[1])
            self._check_row(decoded.job, piece, flaws[:, row])
        rows = tuple((piece, hidden[row, : int(num_latent[row])].clone()) for row, piece in enumerate(pieces))
        return EncodedJob(decoded.job.group, rows, decoded.audio.shape[0] * decoded.audio.shape[2], busy_seconds)

    def _on_cpu(self, job: Job, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        torch.set_num_threads(self._num_threads)  # of this thread; `Engine.run` sets the rest back
        started = time.perf_counter()
        hidden, flaws, num_latent = self._compute(job, audio, lengths)
        return hidden, flaws, num_latent, time.perf_counter() - started

    def _on_cuda(self, job: Job, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        computing = self._computing
        assert computing is not None
        copying = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        with torch.cuda.stream(copying):
            on_device = audio.to(self._device, non_blocking=True)
        with self._lock, torch.cuda.stream(computing):
            computing.wait_stream(copying)
            begun.record(computing)
            results = self._compute(job, on_device, lengths)
            done.record(computing)
        with torch.cuda.stream(copying):
            copying.wait_event(done)
            hidden, flaws = (_to_pinned(result) for result in results[:2])
        copying.synchronize()  # the tensors on the device are held until here, so their memory is not used again
        return hidden, flaws, results[2], begun.elapsed_time(done) / 1000

    def _compute(self, job: Job, audio: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Latents as they are stored, bool (2, B) whether a row was not finite before and after the cast, lengths."""
        try:
            hidden, num_latent = output.checked(self._encoder, len(audio), self._encoder.encode(audio, lengths))
        except Exception as error:  # of a user's own encoder: any
            if _is_out_of_memory(error):
                raise
            raise _failed(self._encoder, job, error) from error
        hidden = zero_padding(hidden, num_latent)  # NaN in the padding is no fault of a sample
        stored = hidden.to(self._dtype)
        flaws = torch.stack([~latents.isfinite().flatten(1).all(dim=1) for latents in (hidden, stored)])
        return stored, flaws, num_latent

    def _check_length(self, job: Job, piece: Piece, num_latent: int, num_given: int) -> None:
        expected = self._encoder.num_latent_frames(piece.window.num_frames)
        if num_latent != expected or num_given < expected:
            clip, name = job.clip_of(piece), output.name_of(self._encoder)
            raise BuildError(
                f"{clip.shard}: sample {clip.key!r}: {name}: for {piece.window.num_frames} PCM frames it promised "
                f"{expected} latent frames; its encode says {num_latent}, in hidden states of {num_given}; "
                "mend its encode, or its num_latent_frames"
            )

    def _check_row(self, job: Job, piece: Piece, flaws: Tensor) -> None:
        clip = job.clip_of(piece)
        if bool(flaws[0]):
            raise SampleError(
                f"{clip.shard}: sample {clip.key!r}: the encoder gives latents that are not finite numbers; "
                "check its weights and settings (autocast float16 overflows easily), or leave the recording out"
            )
        if bool(flaws[1]):
            name = str(self._dtype).removeprefix("torch.")
            raise SampleError(
                f"{clip.shard}: sample {clip.key!r}: its latents do not fit {name}; store them as bfloat16 or float32"
            )


def _to_pinned(result: Tensor) -> Tensor:
    pinned = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
    return pinned.copy_(result, non_blocking=True)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, HeadraceError):
        return False
    return any(
        sign in str(error) for sign in ("can't allocate memory", "out of memory", "ALLOC_FAILED")
    )  # CPU, CUDA, cuBLAS


def _failed(encoder: Encoder, job: Job, error: Exception) -> BuildError:
    clips = dict.fromkeys(job.clip_of(piece) for piece in job.batch.pieces)
    first, others = next(iter(clips)), f" and {len(clips) - 1} more of its batch" if len(clips) > 1 else ""
    words = str(error)
    if not isinstance(error, HeadraceError):
        words = f"{output.name_of(encoder)}: its encode raised {type(error).__name__}: {error}"
    return BuildError(f"{first.shard}: sample {first.key!r}{others}: {words}")


def _does_not_fit(decoded: DecodedJob, device: torch.device) -> BuildError:
    piece = decoded.job.batch.pieces[0]
    clip = decoded.job.clip_of(piece)
    return BuildError(
        f"{clip.shard}: {piece.window.num_frames} PCM frames of sample {clip.key!r} do not fit the memory of {device} "
        "even alone; free its memory, use a larger device, or give the encoder a shorter window_seconds"
    )
