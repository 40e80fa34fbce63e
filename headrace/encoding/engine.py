"""Running encoders over batches on every device, while threads decode what comes next.

Owns putting the reader and the lanes together; what becomes of the latents is the caller's.
"""

import queue
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from headrace.encoders.protocol import Encoder
from headrace.encoding.lanes import Budget, EncodedJob, Lane
from headrace.encoding.payload import torch_dtype
from headrace.encoding.plans import EncodingOptions, LatentDtype
from headrace.encoding.reading import DecodedJob, Job, Reader
from headrace.encoding.stats import EncodingStats
from headrace.ordered import map_in_order

_CUDA_BATCH_SECONDS = 320.0
_CPU_BATCH_SECONDS = 10.0  # more at a time is no faster there, and with one core each it would be more memory


@dataclass(slots=True)
class Meter:
    """Adds up the figures of a run; `num_computing` batches compute at a time, on all devices together."""

    budget: Budget
    num_computing: int
    started: float = field(default_factory=time.perf_counter)
    num_batches: int = 0
    num_padded_frames: int = 0
    num_valid_frames: int = 0
    busy_seconds: float = 0.0

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
            halvings=self.budget.halvings,
        )


@dataclass(slots=True)
class Engine:
    """Encoders, one per device, and how they are run."""

    encoders: Sequence[Encoder]
    dtype: LatentDtype
    options: EncodingOptions
    meter: Meter = field(init=False)
    _lanes: list[Lane] = field(init=False)

    def __post_init__(self) -> None:
        """Set up one lane per device."""
        budget, dtype = Budget(self.budget_frames), torch_dtype(self.dtype)
        num_cores = max(1, torch.get_num_threads() // max(1, self.devices.count("cpu")))
        self._lanes = [Lane(encoder, dtype, budget, num_cores) for encoder in self.encoders]
        self.meter = Meter(budget, sum(lane.num_computing for lane in self._lanes))
        for device in self.devices:
            if device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats(device)
                torch.cuda.synchronize(device)  # weights are there before another stream reads them

    @property
    def devices(self) -> tuple[str, ...]:
        """Where each encoder is."""
        return tuple(encoder.device for encoder in self.encoders)

    @property
    def budget_frames(self) -> int:
        """PCM frames of one batch, padding included."""
        on_cuda = any(device.startswith("cuda") for device in self.devices)
        seconds = self.options.batch_seconds or (_CUDA_BATCH_SECONDS if on_cuda else _CPU_BATCH_SECONDS)
        return round(seconds * self.encoders[0].sample_rate_hz)

    def run(self, jobs: Iterable[Job]) -> Generator[EncodedJob, None, None]:
        """Latents of all jobs, in their order (a job may come in parts); closing it ends its threads.

        Raises:
            SampleError: a clip cannot be read, or its latents are not finite.
            BuildError: one row alone does not fit a device's memory.
        """
        free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        slots = [lane for lane in self._lanes for _ in range(lane.num_slots)]
        for lane in slots:
            free.put(lane)

        def encode(decoded: DecodedJob) -> list[EncodedJob]:
            lane = free.get()
            try:
                return lane.run(decoded)
            finally:
                free.put(lane)

        pin_memory = any(lane.is_cuda for lane in self._lanes)
        with (
            _torch_threads_kept(),
            Reader(self.encoders[0], num_threads=self.options.decoding_threads(), pin_memory=pin_memory) as reader,
            ThreadPoolExecutor(len(slots), "headrace-encode") as pool,
        ):
            decoded = reader.read(jobs, ahead=2 * len(slots))
            for parts in map_in_order(pool, encode, decoded, window=len(slots) + self.meter.num_computing):
                for part in parts:
                    self.meter.add(part)
                    yield part


@contextmanager
def _torch_threads_kept() -> Iterator[None]:
    """Lanes give their threads less cores, which torch takes for the default of threads to come."""
    num_threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def _name(device: str) -> str:
    return f"{device} {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device
