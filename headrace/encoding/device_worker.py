"""Runs one encoder on one device: copies audio in, encodes, checks the results, copies them out.

When a batch does not fit the device's memory, it is halved, and so are all later batches.

On CUDA, a worker is called from two threads. They share one stream for computing, and each has its own stream for
copies, so that the copies of one batch run while the other batch is computed. The streams of a device stay for the
process, and so does the thread that computes: the allocator keeps freed memory for the stream that used it, libraries
keep a workspace for each, and cuDNN's plans belong to a thread (a plan takes 25 ms for each new shape of a batch).

On a CPU, a worker is called from one thread per core, each with its own batch. Torch would otherwise split each layer
of one batch over all cores, and all of them would wait for the slowest one, such as a core that also decodes audio.
"""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headrace.encoders import output
from headrace.encoders.framing import zero_padding
from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.batches import ClipPiece
from headrace.encoding.made import Made
from headrace.encoding.plans import NoLatents
from headrace.encoding.reading import DecodedJob, EncodingJob
from headrace.errors import BuildError, DeviceMemoryError, HeadraceError
from headrace.output_kinds import HIDDEN

_log = logging.getLogger(__name__)

_SIGNS_OF_OUT_OF_MEMORY = (
    "can't allocate memory",  # CPU
    "out of memory",  # CUDA
    "ALLOC_FAILED",  # cuBLAS, cuDNN and cuFFT
    "unable to find an engine",  # cuDNN, when no engine's workspace fits; "GET was …", "FIND was …"
    "nable to find a valid cuDNN algorithm",  # the same from before cuDNN 8
)
_CUDA_SLOTS = 2
_MOST_CPU_BATCHES = 16  # at a time on one machine: each holds the activations of a row of up to a window


@dataclass(frozen=True, slots=True)
class EncodedJob:
    """Latents of a batch.

    Attributes:
        group: number of the group of shards.
        rows: each piece and, for each output, its values (T, D) on the CPU in the stored dtype; or its rejection.
        num_padded_frames: PCM frames that the encoder computed, all padding included.
        busy_seconds: time for which the device computed.
    """

    group: int
    rows: tuple[tuple[ClipPiece, Made], ...]
    num_padded_frames: int
    busy_seconds: float


_FITTING: dict[tuple[str, tuple[str, ...]], int] = {}
"""Fingerprint of an encoder and its devices → the batch limit that this process found when memory ran out."""


@dataclass(slots=True)
class BatchLimit:
    """The most PCM frames of a batch; halved for all devices each time that a device's memory runs out.

    The process remembers it, so that memory does not run out again in each partition; but not what an encoder found
    beside others, whose memory it may have later.
    """

    num_frames: int
    of: tuple[str, tuple[str, ...]] | None = None
    halvings: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def for_encoders(cls, encoders: Sequence[Encoder], num_frames: int, *, are_alone: bool) -> "BatchLimit":
        """At most this limit, and what an earlier run of the same encoder on the same devices found."""
        of = encoders[0].fingerprint, tuple(encoder.device for encoder in encoders)
        return cls(min(num_frames, _FITTING.get(of, num_frames)), of if are_alone else None)

    def halve(self, failed_frames: int) -> None:
        """Halve the limit, because a batch of this many frames did not fit."""
        with self._lock:
            if failed_frames > self.num_frames:
                return  # another batch has halved the limit since
            self.num_frames = max(1, failed_frames // 2)
            if self.of is not None:
                _FITTING[self.of] = self.num_frames
            self.halvings += 1
            if self.halvings == 1:
                _log.warning(
                    "out of memory with a batch of %d PCM frames: this batch and later ones are halved", failed_frames
                )


class _Lanes:
    """The streams of a CUDA device: one for computing, with its thread, and one for the copies of each batch."""

    def __init__(self, device: torch.device) -> None:
        self.thread = ThreadPoolExecutor(1, "headrace-gpu")
        self.computing = self._new_stream(device)
        self.copying: queue.SimpleQueue[torch.cuda.Stream] = queue.SimpleQueue()
        for _ in range(_CUDA_SLOTS):
            self.copying.put(self._new_stream(device))

    def _new_stream(self, device: torch.device) -> torch.cuda.Stream:
        return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


_made_lanes = cache(_Lanes)
_MAKING_LANES = threading.Lock()


def _lanes_of(device: torch.device) -> _Lanes:
    """The streams of a device, made once: engines may begin on several threads at a time."""
    with _MAKING_LANES:
        return _made_lanes(device)


class DeviceWorker:
    """Runs batches on the device of one encoder; may be called from `num_slots` threads at once.

    Attributes:
        num_slots: number of batches that may be under way.
        num_computing: number of batches that compute at the same time.
    """

    def __init__(self, encoder: Encoder, dtype: torch.dtype, budget: BatchLimit, num_cores: int) -> None:
        self._encoder, self._device, self._dtype, self._budget = encoder, torch.device(encoder.device), dtype, budget
        self._outputs = outputs_of(encoder)
        self.num_computing = 1
        if not self.is_cuda and encoder.info.is_concurrent:
            self.num_computing = min(_MOST_CPU_BATCHES, num_cores)
        self.num_slots = _CUDA_SLOTS if self.is_cuda else self.num_computing
        self._num_threads = num_cores // self.num_computing
        self._lanes = _lanes_of(self._device) if self.is_cuda else None

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a CUDA GPU."""
        return self._device.type == "cuda"

    @torch.inference_mode()
    def run(self, decoded: DecodedJob) -> list[EncodedJob]:
        """Encode a batch, in several parts if the whole does not fit the device's memory.

        Raises:
            BuildError: a single row does not fit the memory, the encoder raises an error, or its result is invalid.
        """
        batch = decoded.job.batch
        num_frames, num_rows = batch.num_computed_frames, len(batch.pieces)
        if num_rows > 1 and num_frames > self._budget.num_frames:
            return self._halves(decoded)
        try:
            return [self._encode(decoded)]
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            if num_rows == 1:
                raise _does_not_fit(decoded, self._device, error) from error
        if self.is_cuda:
            torch.cuda.empty_cache()
        self._budget.halve(num_frames)
        return self._halves(decoded)

    def _halves(self, decoded: DecodedJob) -> list[EncodedJob]:
        return [encoded for half in decoded.halves() for encoded in self.run(half)]

    def _encode(self, decoded: DecodedJob) -> EncodedJob:
        lengths = torch.tensor([piece.window.num_frames for piece in decoded.job.batch.pieces])
        compute = self._on_cuda if self.is_cuda else self._on_cpu
        found, busy_seconds = compute(decoded.job, decoded.audio, lengths)
        pieces = decoded.job.batch.pieces
        for row, piece in enumerate(pieces):
            for form, result in zip(self._outputs, found, strict=True):
                self._check_length(decoded.job, piece, form, int(result.lengths[row]), result.values.shape[1])
        rows = tuple((piece, self._row(found, row)) for row, piece in enumerate(pieces))
        return EncodedJob(decoded.job.group, rows, decoded.job.batch.num_computed_frames, busy_seconds)

    def _row(self, found: "list[_Result]", row: int) -> Made:
        """The values of all outputs of one row, or its rejection."""
        for form, result in zip(self._outputs, found, strict=True):
            if (rejection := self._rejection(form, result.flaws[:, row])) is not None:
                return rejection
        return tuple(result.values[row, : int(result.lengths[row])].clone() for result in found)

    def _on_cpu(self, job: EncodingJob, audio: Tensor, lengths: Tensor) -> "tuple[list[_Result], float]":
        torch.set_num_threads(self._num_threads)  # for this thread; `Engine.run` restores the default of new threads
        started = time.perf_counter()
        found = self._compute(job, audio, lengths)
        return found, time.perf_counter() - started

    def _on_cuda(self, job: EncodingJob, audio: Tensor, lengths: Tensor) -> "tuple[list[_Result], float]":
        assert self._lanes is not None
        copying = self._lanes.copying.get()
        try:
            return self._copied_and_computed(job, audio, lengths, self._lanes, copying)
        finally:
            self._lanes.copying.put(copying)

    def _copied_and_computed(
        self, job: EncodingJob, audio: Tensor, lengths: Tensor, lanes: _Lanes, copying: torch.cuda.Stream
    ) -> "tuple[list[_Result], float]":
        """The results of `_on_cuda`, with copies on the stream `copying`.

        Every tensor that two streams use is recorded on the second one. An error frees tensors while work on them may
        still be queued; the allocator then keeps their memory until the recorded stream has finished that work.
        """
        computing = lanes.computing
        begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        with torch.cuda.stream(copying):
            on_device = audio.to(self._device, non_blocking=True)
        on_device.record_stream(computing)

        def computed() -> list[_Result]:
            with torch.inference_mode(), torch.cuda.stream(computing):
                computing.wait_stream(copying)
                begun.record(computing)
                results = self._compute(job, on_device, lengths)
                done.record(computing)
                return results

        results = lanes.thread.submit(computed).result()
        with torch.cuda.stream(copying):
            copying.wait_event(done)
            copied = [
                _Result(_to_pinned(result.values, copying), _to_pinned(result.flaws, copying), result.lengths)
                for result in results
            ]
        copying.synchronize()
        return copied, begun.elapsed_time(done) / 1000

    def _compute(self, job: EncodingJob, audio: Tensor, lengths: Tensor) -> "list[_Result]":
        """The outputs of a batch in their stored dtypes."""
        try:
            found = output.checked(self._encoder, len(audio), self._encoder.encode(audio, lengths))
        except Exception as error:  # of a user's own encoder: any
            if _is_out_of_memory(error):
                raise
            raise _failed(self._encoder, job, error) from error
        pairs = zip(self._outputs, found, strict=True)
        return [
            _stored_codes(one, form.dtype) if form.dtype else _stored_floats(one, self._dtype) for form, one in pairs
        ]

    def _check_length(
        self, job: EncodingJob, piece: ClipPiece, form: EncoderOutput, num_latent: int, num_given: int
    ) -> None:
        if form.name != HIDDEN:
            num_frames = piece.window.num_frames
            wanted = f"1 to {num_given}"
            if 1 <= num_latent <= num_given:
                if form.fits(num_latent, num_frames, self._encoder.info.context):
                    return
                wanted = f"about {num_frames / form.hop:.0f}, because its hop is {form.hop}; correct hop or encode"
            clip, name = job.clip_of(piece), output.name_of(self._encoder)
            raise BuildError(
                f"{clip.shard}: sample {clip.key!r}: {name}: for {num_frames} PCM frames, its encode returned "
                f"{num_given} frames of {form.name} and the length {num_latent}: expected {wanted}"
            )
        expected = self._encoder.num_latent_frames(piece.window.num_frames)
        if num_latent != expected or num_given < expected:
            clip, name = job.clip_of(piece), output.name_of(self._encoder)
            raise BuildError(
                f"{clip.shard}: sample {clip.key!r}: {name}: for {piece.window.num_frames} PCM frames, its "
                f"num_latent_frames returns {expected}, but its encode returns the length {num_latent} and latents of "
                f"{num_given} frames; correct its encode, or its num_latent_frames"
            )

    def _rejection(self, form: EncoderOutput, flaws: Tensor) -> NoLatents | None:
        """Why a row's output cannot be stored; None if it can. `flaws` is one column of those of a `_Result`."""
        if bool(flaws[0]):
            return NoLatents.not_finite()
        if not bool(flaws[1]):
            return None
        if form.dtype:
            return NoLatents.no_codes(form.name, form.dtype)
        return NoLatents.overflow(str(self._dtype).removeprefix("torch."))


class _Result(NamedTuple):
    """One output of a batch.

    Attributes:
        values: (B, T, D) in the stored dtype.
        flaws: bool (2, B): whether a row was not finite, and whether it does not fit the stored dtype.
        lengths: int64 (B,) on the CPU.
    """

    values: Tensor
    flaws: Tensor
    lengths: Tensor


def _stored_floats(found: output.Encoded, dtype: torch.dtype) -> _Result:
    hidden = zero_padding(*found)  # NaN in the padding is not an error of the sample
    stored = hidden.to(dtype)
    overflown = _not_finite(stored)
    is_sound = not stored.is_cuda and not bool(overflown.any())  # a GPU answers sooner than one waits for it
    return _Result(stored, torch.stack([overflown if is_sound else _not_finite(hidden), overflown]), found.lengths)


def _not_finite(latents: Tensor) -> Tensor:
    return ~latents.isfinite().flatten(1).all(dim=1)


def _stored_codes(found: output.Encoded, dtype: str) -> _Result:
    """Codes, cast where they are. A row is flawed if a number is negative or so large that it may be padding."""
    codes = zero_padding(found.values.long(), found.lengths)  # torch computes little with unsigned numbers
    kind = np.dtype(dtype)
    most = int(np.iinfo(kind).max) - (kind.kind == "u")
    flaws = ((codes < 0) | (codes > most)).flatten(1).any(dim=1)
    return _Result(codes.to(getattr(torch, dtype)), torch.stack([torch.zeros_like(flaws), flaws]), found.lengths)


def _to_pinned(result: Tensor, stream: torch.cuda.Stream) -> Tensor:
    """A copy in pinned memory, made on `stream`, which must be the current stream."""
    result.record_stream(stream)
    pinned = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
    return pinned.copy_(result, non_blocking=True)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, HeadraceError):
        return False
    return any(sign in str(error) for sign in _SIGNS_OF_OUT_OF_MEMORY)


def _failed(encoder: Encoder, job: EncodingJob, error: Exception) -> BuildError:
    clips = dict.fromkeys(job.clip_of(piece) for piece in job.batch.pieces)
    first, others = next(iter(clips)), f" and {len(clips) - 1} more of its batch" if len(clips) > 1 else ""
    words = str(error)
    if not isinstance(error, HeadraceError):
        words = f"{output.name_of(encoder)}: its encode raised {type(error).__name__}: {error}"
    return BuildError(f"{first.shard}: sample {first.key!r}{others}: {words}")


def _does_not_fit(decoded: DecodedJob, device: torch.device, error: Exception) -> DeviceMemoryError:
    piece = decoded.job.batch.pieces[0]
    clip = decoded.job.clip_of(piece)
    return DeviceMemoryError(
        f"{clip.shard}: {piece.window.num_frames} PCM frames of sample {clip.key!r} do not fit the memory of {device}, "
        f"even alone ({str(error).splitlines()[0] if str(error) else type(error).__name__}); free memory of the "
        "device, use a larger one, or shorten the encoder's window (`window_seconds`, or `info` of a custom encoder)"
    )
