"""`StreamingDataset`: the long signature that users of MosaicML's StreamingDataset know, over small typed parts.

Owns the face: it turns arguments into settings, opens the streams, keeps the epoch counter and the state, and hands out
samples. Order, reading and caching live in their own modules.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch.utils.data  # here and in `loader` only: a DataLoader asks for its own base class

from headrace.errors import ConfigError
from headrace.streaming import distributed
from headrace.streaming.access import ShardAccess
from headrace.streaming.arena import Allocator, Arena
from headrace.streaming.assemble import Assembler, Recipe
from headrace.streaming.batch import Sample, padding_like
from headrace.streaming.epochs import EpochRun, Share
from headrace.streaming.mixing import Mixture, StreamSpec
from headrace.streaming.order import EpochOrder
from headrace.streaming.remote import OpenedRemote, Wanted, open_remote
from headrace.streaming.rows import StreamReader
from headrace.streaming.settings import FetchConfig, Output, SampleConfig, Transform, parse_bytes
from headrace.streaming.spec import FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.stream import Stream
from headrace.streaming.world import World

_DEFAULT_BATCH_SIZE = 1


class StreamingDataset(torch.utils.data.IterableDataset[Sample]):
    """Streams samples in an order that is exact, elastic and resumable. See DESIGN 4 and 5."""

    def __init__(  # noqa: PLR0913 - the signature that users of the reference know, and ours behind it
        self,
        *,
        streams: Sequence[Stream] | None = None,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: bool | str | None = None,
        keep_zip: bool = False,
        epoch_size: int | str | None = None,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",  # noqa: ARG002 - accepted, without effect
        num_canonical_nodes: int | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_algo: str = "block",
        shuffle_seed: int = 9176,
        shuffle_block_size: int | None = None,
        batching_method: str = "random",
        world: World | None = None,
        snapshot: int | None = None,
        latents: Sequence[str] = (),
        last_batch: str = "pad",
        batching: str | LengthBuckets | FrameBudget = "fixed",
        transform: Transform | None = None,
        crop_frames: int | None = None,
        crop_seconds: float | None = None,
        sample_rate: int | None = None,
        on_bad_sample: str = "raise",
        max_bad_samples: int = 100,
        output: str = "torch",
        change_streams: bool = False,
    ) -> None:
        self.world = world or distributed.current_world()
        self.batch_size = batch_size or _DEFAULT_BATCH_SIZE
        self._epoch_size = epoch_size
        self._fetch = FetchConfig(
            download_retry, download_timeout, bool(validate_hash), keep_zip, parse_bytes(cache_limit), predownload
        )
        self._samples = SampleConfig(
            crop_frames, crop_seconds, sample_rate, transform, on_bad_sample, max_bad_samples, output
        )
        self._spec = OrderSpec(
            global_batch_size=self.batch_size * self.world.world_size,
            shuffle=shuffle,
            shuffle_algo=shuffle_algo,
            shuffle_seed=shuffle_seed,
            num_canonical_nodes=num_canonical_nodes or 64,
            shuffle_block_size=shuffle_block_size,
            batching_method=batching_method,
            sampling_method=sampling_method,
            sampling_granularity=sampling_granularity,
            last_batch=last_batch,
            buckets=None,
        )
        if streams is None:
            if remote is None:
                raise ConfigError("nothing to read: pass remote=…, or streams=[Stream(remote=…), …]")
            streams = [Stream(remote, local, split, latents=latents, snapshot=snapshot)]
        self._streams = tuple(streams)
        self._opened = [open_remote(Wanted(s.remote, tuple(s.latents), s.split, s.snapshot)) for s in self._streams]
        self._epoch = 0

    @property
    def output(self) -> Output:
        """What batches are made of."""
        return self._samples.output

    @property
    def size(self) -> int:
        """Samples of all streams, each counted once."""
        return sum(opened.primary.num_samples for opened in self._opened)

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iteration gives."""
        return self._epoch

    def __len__(self) -> int:
        """Rows of one rank in one epoch, padding included: batches times `batch_size`, as torch's DataLoader wants it."""
        return self._run(self._epoch).order.num_batches * self.batch_size

    def begin(self) -> EpochRun:
        """Start the next epoch."""
        run = self._run(self._epoch)
        self._epoch += 1
        return run

    def assembler(self, allocator: Allocator | None = None) -> Assembler:
        """What makes batches of these streams in this process."""
        readers = [
            StreamReader(ShardAccess(o.primary, self._fetch), [ShardAccess(j, self._fetch) for j in o.joined])
            for o in self._opened
        ]
        recipe = Recipe(self._samples, self._spec.shuffle_seed, self._opened[0].suffixes)
        return Assembler(readers, recipe, allocator or Arena())

    def __iter__(self) -> Iterator[Sample]:
        """The samples of the next epoch that belong to this rank (and torch worker), one by one; padding rows too."""
        info = torch.utils.data.get_worker_info()
        share = Share(info.id, info.num_workers) if info is not None else Share()
        assembler = self.assembler()
        pattern: Sample = {"__key__": ""}
        for plan in self.begin().plans(share):
            for row in assembler.rows(plan):
                if row is not None:
                    pattern = assembler.sample(row, plan.epoch)
                yield padding_like(pattern) if row is None else pattern

    def _run(self, epoch: int) -> EpochRun:
        specs = [_stream_spec(stream, opened) for stream, opened in zip(self._streams, self._opened, strict=True)]
        return EpochRun(EpochOrder(self._spec, Mixture(tuple(specs), self._epoch_size), epoch), self.world)


def _stream_spec(stream: Stream, opened: OpenedRemote) -> StreamSpec:
    name = stream.name or (f"{stream.remote}#{stream.split}" if stream.split else stream.remote)
    sizes = opened.primary.shards.num_samples
    return StreamSpec(name, sizes, stream.proportion, stream.repeat, stream.choose, stream.batch_size)
