"""Writes latent shards on other threads, while the devices compute what comes after.

The `.pth` of a sample is made as soon as the sample is encoded; a shard is put together and written as soon as its last
sample is. So most of the work is done before the end of a group, where nearly all of its shards are completed at once.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from headrace.encoders.outputs import outputs_of
from headrace.encoders.protocol import Encoder
from headrace.encoding.made import Made
from headrace.encoding.plans import (
    EncodingRun,
    LatentDtype,
    LatentPlan,
)
from headrace.encoding.publishing import MadeShard, Saved, publish_shard, saved
from headrace.encoding.sources import AudioShard
from headrace.format.indexes.index import ShardIndex
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.tensors import storage_dtype
from headrace.machine import num_cores
from headrace.ordered import Backlog

_MOST_THREADS = 4
_WAITING_BYTES = 512 << 20  # of latents in shards that wait to be written, or are being written


@dataclass(slots=True)
class LatentPublisher:
    """Makes the `.pth` of samples and writes shards of them; a context manager.

    What was added is written, also after an error.

    Attributes:
        encoder: the encoder.
        outputs: its outputs, as shards describe them.
        route: the folders and the dtype.
    """

    encoder: Encoder
    outputs: tuple[Output, ...]
    route: EncodingRun
    _threads: ThreadPoolExecutor = field(init=False)
    _waiting: Backlog[tuple[str, ShardIndex]] = field(default_factory=Backlog)
    _published: dict[str, ShardIndex] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """The publisher itself."""
        self._threads = ThreadPoolExecutor(min(_MOST_THREADS, num_cores()), "headrace-publish")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what was added."""
        self._threads.shutdown()

    def save(self, made: Made) -> Future[Saved]:
        """Start to make the `.pth` of a sample."""
        return self._threads.submit(saved, self.outputs, made)

    def add(
        self, plan: LatentPlan, shard: AudioShard, samples: Sequence[Future[Saved]], made_by: Mapping[str, str]
    ) -> None:
        """Start to write a shard of these samples, in their order. Waits while too much waits to be written.

        Args:
            plan: the shard.
            shard: the audio shard that it is made from.
            samples: from `save`.
            made_by: the note of `headrace.format.manifests.made_by`.

        Raises:
            Exception: a shard that was added before could not be written.
        """
        num_bytes = plan.seconds * stored_bytes_per_second(self.encoder, self.route.dtype)
        self._waiting.add(self._threads.submit(self._publish, plan, shard, samples, made_by), num_bytes)
        self._published |= self._waiting.take(_WAITING_BYTES)

    def indexes(self) -> dict[str, ShardIndex]:
        """Wait for all shards. Returns their indexes by input digest."""
        self._published |= self._waiting.take(0)
        return self._published

    def _publish(
        self, plan: LatentPlan, shard: AudioShard, samples: Sequence[Future[Saved]], made_by: Mapping[str, str]
    ) -> tuple[str, ShardIndex]:
        """Write one latent shard. Returns its input digest and its index."""
        results = [sample.result() for sample in samples]  # they were started before, so that threads have them
        keys = [clip.key for clip in shard.clips]
        made = MadeShard(plan, shard.seconds, keys, shard.texts, results, made_by)
        return plan.input_digest, publish_shard(self.route, self.encoder, self.outputs, made)


def stored_bytes_per_second(encoder: Encoder, dtype: LatentDtype) -> float:
    """Bytes of latents of a second of audio, without vectors."""
    return sum(
        encoder.sample_rate_hz / float(output.hop) * output.width * storage_dtype(output.dtype or dtype).itemsize
        for output in outputs_of(encoder)
        if output.has_time
    )
