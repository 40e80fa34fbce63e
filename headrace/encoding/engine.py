"""Runs encoders over jobs on every device, while other threads decode the audio of the next jobs."""

import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from headrace.encoders import running
from headrace.encoders.protocol import Encoder, is_of_texts
from headrace.encoding.batches import EncodingBatch, plan_batches
from headrace.encoding.device_worker import BatchLimit, DeviceWorker, EncodedJob
from headrace.encoding.plans import EncodingOptions, LatentDtype
from headrace.encoding.reading import DecodedJob, EncodingJob, JobDecoder, ReadClip, TokenReader
from headrace.encoding.stats import EncodingStats, Waits
from headrace.encoding.windows import ClipWindow
from headrace.format.manifests.made_by import MadeBy
from headrace.ordered import TaskThreads, map_in_order

_CUDA_BATCH_SECONDS = 320.0
_CPU_BATCH_SECONDS = 10.0  # larger batches take more memory and are not faster
_CUDA_BATCH_TOKENS = 1 << 16
_CPU_BATCH_TOKENS = 1 << 12

_TORCH_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(slots=True)
class EncodingMeter:
    """Adds up the figures of a run.

    Attributes:
        budget: the limit on batches, which counts how often it was halved.
        num_computing: number of batches that compute at the same time, on all devices together.
    """

    budget: BatchLimit
    num_computing: int
    started: float = field(default_factory=time.perf_counter)
    num_batches: int = 0
    num_padded_frames: int = 0
    num_valid_frames: int = 0
    busy_seconds: float = 0.0
    waits: Waits = field(default_factory=Waits)

    def add(self, encoded: EncodedJob) -> None:
        """Count a batch."""
        self.num_batches += 1
        self.num_padded_frames += encoded.num_padded_frames
        self.num_valid_frames += sum(piece.window.num_frames for piece, _ in encoded.rows)
        self.busy_seconds += encoded.busy_seconds

    def stats(self, audio_seconds: float, devices: Sequence[str]) -> EncodingStats:
        """The figures so far."""
        wall_seconds = time.perf_counter() - self.started
        gpus = [device for device in devices if device.startswith("cuda")]
        return EncodingStats(
            audio_seconds=audio_seconds,
            wall_seconds=wall_seconds,
            num_batches=self.num_batches,
            padding_share=1 - self.num_valid_frames / max(1, self.num_padded_frames),
            busy_share=min(1.0, self.busy_seconds / (wall_seconds * self.num_computing)),
            devices=tuple(_name(device) for device in devices),
            peak_memory_bytes=max((torch.cuda.max_memory_allocated(gpu) for gpu in gpus), default=0),
            waits=dict(self.waits.seconds),
            halvings=self.budget.halvings,
        )


@dataclass(slots=True)
class Engine:
    """Runs the same encoder on one or several devices.

    Attributes:
        encoders: the encoder, once per device.
        dtype: dtype of the stored latents.
        options: batch size and threads.
        is_alone: whether no other engine uses the devices at the same time.
        meter: figures of the run.
    """

    encoders: Sequence[Encoder]
    dtype: LatentDtype
    options: EncodingOptions
    is_alone: bool = True
    meter: EncodingMeter = field(init=False)
    _workers: list[DeviceWorker] = field(init=False)

    def __post_init__(self) -> None:
        """Create one worker per device."""
        budget = BatchLimit.for_encoders(self.encoders, self.budget_frames, are_alone=self.is_alone)
        dtype = _TORCH_DTYPES[self.dtype]
        num_cores = max(1, _TORCH_THREADS.number // max(1, self.devices.count("cpu")))
        self._workers = [DeviceWorker(encoder, dtype, budget, num_cores) for encoder in self.encoders]
        self.meter = EncodingMeter(budget, sum(worker.num_computing for worker in self._workers))
        for device in self.devices:
            if device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats(device)
                torch.cuda.synchronize(device)  # the weights are copied before another stream reads them

    @property
    def devices(self) -> tuple[str, ...]:
        """Device of each encoder."""
        return tuple(encoder.device for encoder in self.encoders)

    @property
    def made_by(self) -> MadeBy:
        """Devices and software, as far as they change results by rounding."""
        on_cuda = [device for device in self.devices if device.startswith("cuda")]
        names = {torch.cuda.get_device_name(device) for device in on_cuda} | set(self.devices).difference(on_cuda)
        cudnn = str(torch.backends.cudnn.version()) if on_cuda else ""  # type: ignore[no-untyped-call]
        return MadeBy(", ".join(sorted(names)), torch.__version__, cudnn, self.encoders[0].info.is_compiled)

    @property
    def budget_frames(self) -> int:
        """The most PCM frames, or tokens, of a batch, padding included."""
        on_cuda = any(device.startswith("cuda") for device in self.devices)
        if is_of_texts(self.encoders[0]):
            return _CUDA_BATCH_TOKENS if on_cuda else _CPU_BATCH_TOKENS
        seconds = self.options.batch_seconds or (_CUDA_BATCH_SECONDS if on_cuda else _CPU_BATCH_SECONDS)
        return round(seconds * self.encoders[0].sample_rate_hz)

    def batches(self, windows: Sequence[tuple[ClipWindow, ...]]) -> list[EncodingBatch]:
        """The batches of the windows of some clips. See `plan_batches`."""
        info, on_cuda = self.encoders[0].info, any(device.startswith("cuda") for device in self.devices)
        return plan_batches(
            windows,
            self.meter.budget.num_frames,
            info.padded_to,
            length_step=info.length_step,
            rounded_within=info.window if on_cuda and not info.length_step else 0,
        )

    def run(self, jobs: Iterable[EncodingJob], read: ReadClip | None = None) -> Generator[EncodedJob, None, None]:
        """Latents of all jobs, in their order; a job may come in several parts. Closing the generator ends its threads.

        Args:
            jobs: what to encode.
            read: reads the clips; None for `read_clip`.

        Raises:
            SampleError: a clip cannot be decoded.
            BuildError: see `DeviceWorker.run`.
        """
        free: queue.SimpleQueue[DeviceWorker] = queue.SimpleQueue()
        slots = [worker for worker in self._workers for _ in range(worker.num_slots)]
        for worker in slots:
            free.put(worker)

        def encode(decoded: DecodedJob) -> list[EncodedJob]:
            worker = free.get()
            try:
                return worker.run(decoded)
            finally:
                free.put(worker)

        pin_memory = any(worker.is_cuda for worker in self._workers)
        with (
            _TORCH_THREADS.kept(),
            running.full_float32(),
            self._reader(read, pin_memory=pin_memory) as reader,
            TaskThreads(len(slots), "headrace-encode") as pool,
        ):
            waits, window = self.meter.waits, len(slots) + self.meter.num_computing
            decoded = waits.each("decoding", reader.read(jobs, ahead=2 * len(slots)))
            for parts in waits.each("device", map_in_order(pool, encode, decoded, window=window)):
                for part in parts:
                    self.meter.add(part)
                    yield part

    def _reader(self, read: ReadClip | None, *, pin_memory: bool) -> "JobDecoder | TokenReader":
        """Reader of the input of jobs."""
        if is_of_texts(self.encoders[0]):
            return TokenReader(pin_memory=pin_memory)
        threads = self.options.decoding_threads(len(self.encoders))
        return JobDecoder(self.encoders[0], num_threads=threads, pin_memory=pin_memory, read=read)


class _TorchThreads:
    """Torch's number of threads before any engine ran.

    The workers of an engine set fewer, which torch uses for new threads; the number is restored when the last of the
    engines that run at the same time ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_kept = self._before = 0

    @property
    def number(self) -> int:
        """The number."""
        with self._lock:
            return self._before if self._num_kept else torch.get_num_threads()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context of an engine that runs."""
        with self._lock:
            self._before = self._before if self._num_kept else torch.get_num_threads()
            self._num_kept += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_kept -= 1
                if not self._num_kept:
                    torch.set_num_threads(self._before)


_TORCH_THREADS = _TorchThreads()


def _name(device: str) -> str:
    return f"{device} {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device
