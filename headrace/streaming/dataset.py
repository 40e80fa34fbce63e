"""`StreamingDataset`: the long signature that users of MosaicML's StreamingDataset know, over small typed parts.

Owns the face: it turns arguments into settings, opens the streams, keeps the epoch counter and the position, and hands
out samples. Order, reading and caching live in modules of their own. The file is long because the signature is.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch.utils.data  # noqa: TID253 - a DataLoader asks for its own base class
from numpy.typing import NDArray

from headrace.errors import ConfigError, SampleError
from headrace.storage import Transfer
from headrace.streaming import distributed
from headrace.streaming.access import ShardAccess
from headrace.streaming.agreement import open_all, open_for_state
from headrace.streaming.arena import Allocator, Arena
from headrace.streaming.assemble import Assembler, Recipe
from headrace.streaming.batch import Sample, padding_like
from headrace.streaming.buckets import in_buckets
from headrace.streaming.epochs import EpochRun, Share
from headrace.streaming.mixing import Mixture, StreamSpec
from headrace.streaming.order import EpochOrder
from headrace.streaming.prefetch import Prefetcher
from headrace.streaming.reading import Reading, Source, default_cache_folder
from headrace.streaming.remote import Wanted
from headrace.streaming.rows import Row
from headrace.streaming.settings import FetchConfig, OnBadSample, Output, SampleConfig, Transform, parse_bytes
from headrace.streaming.spec import (
    DEFAULT_CANONICAL_NODES,
    DEFAULT_SEED,
    FrameBudget,
    LengthBuckets,
    OrderSpec,
)
from headrace.streaming.spec import shuffle_algo as named_algo
from headrace.streaming.state import OrderState, StreamState, resume, save
from headrace.streaming.stream import Stream
from headrace.streaming.world import World

if TYPE_CHECKING:
    from headrace.streaming.spec import BatchingMethod, LastBatch, SamplingMethod

T = TypeVar("T")

_LEAST_AHEAD_BATCHES = 8
_BLOCK_SHARDS = 64
_ONLY_STREAM = "data"
"""Name of the stream of `remote=…`: the order depends on names, and a copy elsewhere must give the same order."""


@dataclass(slots=True)
class _Position:
    """Where the current run stands: batches delivered, and rows of the next."""

    run: EpochRun
    num_batches: int = 0
    num_rows: int = 0


class StreamingDataset(torch.utils.data.IterableDataset[Sample]):
    """Samples in an order that is exact, elastic and resumable, from our shards or any plain WebDataset.

    What arrives depends on the arguments, the data and the state alone; how fast, on threads, workers, prefetch and
    cache. Global batches are the same on every world size. Each iteration is the next epoch.
    """

    def __init__(  # noqa: PLR0913 - the signature that users of the reference know, and what is ours
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
        shuffle_seed: int = DEFAULT_SEED,
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
        """Open the streams. No thread starts, and no shard is read, before the first sample is asked for.

        Args:
            streams: data sets to mix; instead of `remote` and `local`.
            remote: an `audio/` or `latents/<name>/` folder or prefix, or any plain WebDataset: folder, `sizes.json`,
                glob or brace pattern.
            local: folder of the cache for shards of a store, shared by all processes of a host; None takes one below
                the temporary folder. A local `remote` is read in place and needs none.
            split: None for all.
            download_retry: further attempts after a failed one.
            download_timeout: seconds that a request may take.
            validate_hash: check the digests of local files too (any true value); downloads are always checked.
            keep_zip: keep foreign `.tar.gz` and `.tar.zst` shards in the cache beside their unpacked form.
            epoch_size: samples of an epoch under relative weights: 100000, "100k", "64M", "77b".
            predownload: samples per rank to download ahead; None takes a shuffle block.
            cache_limit: bound of the cache folder: bytes, or "50gb".
            sampling_method: "balanced" or "fixed": whether a partial pass takes other samples in each epoch.
            sampling_granularity: samples picked from a shard at a time in a partial pass.
            partition_algo: accepted for compatibility; without effect, since the order never looks at the world.
            num_canonical_nodes: independent walks through a shuffle block; None takes 64, on every world.
            batch_size: samples of a batch on one rank; None takes 1.
            shuffle: False reads in storage order.
            shuffle_algo: "block", "full" or one of the reference's names.
            shuffle_seed: any integer.
            shuffle_block_size: samples mixed with each other; None takes 64 shards' worth.
            batching_method: "random", "stratified", "per_stream" or "device_per_stream".
            world: this process's place; None takes torch.distributed's, or `RANK` and `WORLD_SIZE`. With a world of
                your own, ranks do not agree on the newest snapshot: pin `snapshot` if one may be committed meanwhile.
            snapshot: number to read; None for the newest (rank 0's under torch.distributed).
            latents: folders of latents to join to the audio of `remote` by key.
            last_batch: "pad" or "drop".
            batching: "fixed", "length_buckets", `LengthBuckets(…)` or `FrameBudget(…)`.
            transform: called with each sample's dict; its result is what arrives.
            crop_frames: frames to cut out of each sample, at a place drawn from seed, epoch and position.
            crop_seconds: the same in seconds.
            sample_rate: resample audio to this rate, Hz.
            on_bad_sample: "raise", or "skip": a row of padding instead.
            max_bad_samples: how many this rank may skip.
            output: "torch" or "numpy".
            change_streams: whether a loaded state may come from another mixture, which this one replaces from there on.

        Raises:
            ConfigError: arguments contradict each other or name nothing.
            NotFoundError: no such snapshot.
        """
        self.world = world or distributed.current_world()
        self._has_own_world = world is not None
        self.batch_size = batch_size or 1
        self._epoch_size = epoch_size
        self._change_streams = change_streams
        self._fetch = FetchConfig(
            download_retry, download_timeout, bool(validate_hash), keep_zip, parse_bytes(cache_limit), predownload
        )
        self._samples = SampleConfig(
            crop_frames=crop_frames,
            crop_seconds=crop_seconds,
            sample_rate_hz=sample_rate,
            transform=transform,
            on_bad_sample=cast("OnBadSample", on_bad_sample),  # checked and converted there
            max_bad_samples=max_bad_samples,
            output=cast("Output", output),
        )
        self._spec = OrderSpec(
            global_batch_size=self.batch_size * self.world.world_size,
            shuffle=shuffle,
            shuffle_algo=named_algo(shuffle_algo),
            shuffle_seed=shuffle_seed,
            num_canonical_nodes=DEFAULT_CANONICAL_NODES if num_canonical_nodes is None else num_canonical_nodes,
            shuffle_block_size=shuffle_block_size,
            batching_method=cast("BatchingMethod", batching_method),  # OrderSpec checks names and converts them
            sampling_method=cast("SamplingMethod", sampling_method),
            sampling_granularity=sampling_granularity,
            last_batch=cast("LastBatch", last_batch),
            buckets=_buckets(batching),
        )
        self._streams = _streams(
            streams, remote, Stream(remote or "", local, split, latents=latents, snapshot=snapshot)
        )
        self._local = local
        self._names = _names(self._streams) if streams is not None else [_ONLY_STREAM]
        self._wanted = [self._wanted_of(stream, split) for stream in self._streams]
        self._has_agreed = distributed.is_up() or self._has_own_world
        self._opened = open_all(self._wanted, self._fetch, agree=not self._has_own_world)
        self._suffixes = self._opened[0].suffixes
        self._epoch = 0
        self._num_bad = 0
        self._resumed: OrderState | None = None
        self._worker_start: int | None = None
        self._position: _Position | None = None
        self._kept_reading: Reading | None = None

    # What it holds

    @property
    def output(self) -> Output:
        """What batches are made of."""
        return self._samples.output

    @property
    def max_bad_samples(self) -> int:
        """How many samples a rank may skip."""
        return self._samples.max_bad_samples

    @property
    def size(self) -> int:
        """Samples of all streams, each counted once."""
        return sum(opened.primary.num_samples for opened in self._opened)

    @property
    def num_samples(self) -> int:
        """Samples of the next epoch over all ranks, padding not counted."""
        return self._order().num_samples

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iteration gives, or goes on with."""
        return self._epoch if self._resumed is None else self._resumed.epoch

    def __len__(self) -> int:
        """Rows of one rank in the next iteration, padding included: torch's DataLoader divides it by its batch size."""
        run = self._new_run()
        if isinstance(self._spec.buckets, FrameBudget):
            return sum(len(plan.rows) for plan in run.plans())
        return len(run) * self.batch_size

    @property
    def num_batches(self) -> int:
        """Batches of one rank in the next iteration; the same on every rank."""
        return len(self._new_run())

    # Samples

    def __iter__(self) -> Iterator[Sample]:
        """The next epoch's samples of this rank, one by one, padding rows too (`is_padding`).

        In a worker of torch's DataLoader: those of every num_workers-th batch, so that batches arrive in the same order
        as without workers if the DataLoader has this dataset's `batch_size`.
        """
        info = torch.utils.data.get_worker_info()
        share = Share(info.id, info.num_workers) if info is not None else Share()
        run = self.begin()
        start, self._worker_start = self._worker_start or 0, None
        position = self._position
        assembler, prefetcher = self.assembler(), self.prefetcher(run, share)
        pattern: Sample | None = None
        try:
            for index in share.numbers(start, len(run)):
                plan = run.plan(index)
                rows = assembler.rows(plan)
                for number, row in enumerate(rows, 1):
                    sample = None if row is None else self._read(assembler, row, plan.epoch)
                    pattern = sample or pattern or assembler.pattern(plan.epoch)
                    if position is not None:
                        is_last = number == len(rows)
                        position.num_batches, position.num_rows = (index + 1, 0) if is_last else (index, number)
                    yield padding_like(pattern) if sample is None else sample
                if prefetcher is not None:
                    prefetcher.delivered(index)
        finally:
            if prefetcher is not None:
                prefetcher.close()

    def get_item(self, sample_id: int, retry: int = 7) -> Sample:  # noqa: ARG002 - the reference's signature
        """Sample by its number over all streams in storage order, fetching only its bytes if its shard is not here.

        Args:
            sample_id: from 0 to `size`; negative numbers count from the end.
            retry: accepted for compatibility: `download_retry` says how often to try, and a shard that is evicted
                meanwhile is no failure here.

        Raises:
            IndexError: there is no such sample.
            SampleError: it cannot be read.
        """
        number = sample_id + self.size if sample_id < 0 else sample_id
        if not 0 <= number < self.size:
            raise IndexError(f"sample {sample_id} of {self.size}")
        reading = self.reading
        for reader, opened in zip(reading.readers, self._opened, strict=True):
            if number < opened.primary.num_samples:
                row = reader.rows(np.array([number]), [sample_id], patient=False)[0]
                return Assembler([], self._recipe(), Arena(0)).sample(row, self.next_epoch)
            number -= opened.primary.num_samples
        raise AssertionError

    def __getitem__(self, sample_id: int) -> Sample:
        """See `get_item`."""
        return self.get_item(sample_id)

    # State

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - the reference's signature
        """The position as readable JSON: after what was delivered, or after `num_samples`.

        Args:
            num_samples: samples of the epoch that were processed over all ranks, padding rows included; None takes what
                this dataset, or the loader over it, delivered.
            from_beginning: whether they count from the epoch's beginning, or from where this run of it began.
        """
        position = self._position
        if position is None:
            waiting = self._resumed or save(self._order(), 0, self._stream_states())
            return waiting.to_json()
        run = position.run
        if (info := torch.utils.data.get_worker_info()) is not None:
            state = save(run.order, run.row_after(0), self._stream_states()).to_json()
            return state | {
                "worker": {"id": info.id, "num_workers": info.num_workers, "next_batch": position.num_batches}
            }
        if num_samples is None:
            if position.num_batches == len(run):
                return save(self._order(), 0, self._stream_states()).to_json()
            return save(
                run.order, run.row_after(position.num_batches, position.num_rows), self._stream_states()
            ).to_json()
        base = 0 if from_beginning else run.row_after(0)
        return save(run.order, base + num_samples, self._stream_states()).to_json()

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Go on from a saved state at the next iteration, on any number of ranks and workers.

        A state selects its own snapshots.

        Raises:
            StateError: something that the order depends on differs, or a snapshot is gone; names the field, both values
                and the way out.
        """
        state = OrderState.from_json(obj)
        self._opened = open_for_state(self._wanted, self._names, self._opened, state, self._fetch)
        self._kept_reading = None
        self._resume(state)  # refuse now what would be refused at the next iteration
        self._resumed, self._position = state, None
        worker = obj.get("worker")
        self._worker_start = None if worker is None else int(worker["next_batch"])

    # Shards and cache

    @property
    def cache_usage(self) -> int:
        """Bytes in the cache folders."""
        return sum(cache.usage_bytes() for cache in self.reading.caches)

    def prepare_shard(self, shard_id: int, blocking: bool = True) -> None:  # noqa: FBT001, FBT002 - the reference's signature
        """Bring a shard, numbered over all streams, into the cache; a local one stays where it is.

        Args:
            shard_id: its number.
            blocking: wait also when another process is bringing it.
        """
        access, shard = self._shard(shard_id)
        access.bring(shard)
        if blocking and access.in_place(shard) is None:
            access.open(shard, lambda: [(0, 0)], patient=True)

    def evict_shard(self, shard_id: int) -> bool:
        """Remove a shard from the cache unless a process has it open. Returns whether it is gone. Never a local one."""
        access, shard = self._shard(shard_id)
        access.close_idle()
        return access.in_place(shard) is None and access.cache.evict(access.cache_name(shard))

    def evict_coldest_shard(self) -> str | None:
        """Remove the shard that was not used for longest from the cache. Returns its name; None if there is none."""
        for reader in self.reading.readers:
            reader.primary.close_idle()
        return next((name for cache in self.reading.caches if (name := cache.evict_coldest())), None)

    def resample_streams(self, epoch: int, stream_id: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What an epoch takes of each shard: for inspection; it lists the whole epoch, which reading never does.

        Args:
            epoch: its number.
            stream_id: one stream; None for all, numbered end to end.

        Returns:
            Samples taken of each shard, int64 (num_shards,); and the sample ids taken, sorted, int64.
        """
        order = EpochOrder(self._spec, self._mixture(), epoch)
        rows = order.positions(0, order.num_rows)
        counts, samples, base = [], [], 0
        for number, reader in enumerate(self.reading.readers):
            chosen = np.sort(rows.sample_ids[(rows.stream_ids == number) & ~rows.is_padding])
            shards, _ = reader.locator.find(chosen)
            if stream_id in (None, number):
                counts.append(np.bincount(shards, minlength=len(reader.primary.shards)).astype(np.int64))
                samples.append(chosen + base)
            base += reader.primary.shards.num_samples if stream_id is None else 0
        return np.concatenate(counts), np.concatenate(samples)

    # For the loader

    @property
    def reading(self) -> Reading:
        """The streams as this process reads them."""
        if self._kept_reading is None or self._kept_reading.pid != os.getpid():
            self._kept_reading = Reading(self._sources())
        return self._kept_reading

    def begin(self) -> EpochRun:
        """Start the next epoch, or go on with the one that a state was saved in."""
        self._settle_world()
        run = self._new_run()
        self._resumed = None
        self._epoch = run.epoch + 1
        self._position = _Position(run)
        return run

    def delivered(self, run: EpochRun, num_batches: int) -> None:
        """The loader handed out this many batches of a run."""
        if self._position is not None and self._position.run is run:
            self._position.num_batches = num_batches

    def assembler(self, allocator: Allocator | None = None) -> Assembler:
        """What makes batches of these streams in this process."""
        return Assembler(self.reading.readers, self._recipe(), allocator or Arena())

    def prefetcher(self, run: EpochRun, share: Share = Share()) -> Prefetcher | None:  # noqa: B008 - frozen
        """What downloads the shards that a run needs next; None where all are local."""
        if self.reading.is_local:
            return None
        return Prefetcher(self.reading.readers, run, share, self._ahead_batches())

    def __getstate__(self) -> dict[str, Any]:
        """Travel to a worker without open files, locks and clients."""
        return self.__dict__ | {"_kept_reading": None, "_position": None}

    # Parts

    def _read(self, assembler: Assembler, row: Row, epoch: int) -> Sample | None:
        """A sample; None for a bad one that is skipped."""
        try:
            return assembler.sample(row, epoch)
        except SampleError:
            self._num_bad += 1
            if self._samples.on_bad_sample is not OnBadSample.SKIP or self._num_bad > self.max_bad_samples:
                raise
            return None

    def _ahead_batches(self) -> int:
        ahead = self._fetch.predownload
        if ahead is None:
            samples = sum(opened.primary.num_samples for opened in self._opened)
            shards = sum(len(opened.primary) for opened in self._opened)
            block = self._spec.shuffle_block_size or _BLOCK_SHARDS * samples // max(1, shards)
            ahead = max(_LEAST_AHEAD_BATCHES * self.batch_size, block // self.world.world_size)
        return max(1, -(-ahead // self.batch_size))

    def _settle_world(self) -> None:
        """Ranks that were made before torch.distributed was up agree now, and must be who they thought they were."""
        if self._has_agreed or torch.utils.data.get_worker_info() is not None:
            return
        if not distributed.is_up():
            return
        found = distributed.current_world()
        if found != self.world:
            raise ConfigError(
                f"the dataset was made as {self.world}, but torch.distributed now says {found}: make the dataset after "
                "init_process_group, or pass world=World(rank, world_size)"
            )
        self._opened, self._kept_reading, self._has_agreed = open_all(self._wanted, self._fetch), None, True

    def _wanted_of(self, stream: Stream, split: str | None) -> Wanted:
        return Wanted(
            remote=os.fspath(stream.remote),
            latents=tuple(map(os.fspath, stream.latents)),
            split=stream.split or split,
            snapshot=stream.snapshot,
            index_folder=self._cache_folder(stream) / "indexes",
            transfer=Transfer(self._fetch_of(stream).download_timeout_seconds),
        )

    def _cache_folder(self, stream: Stream) -> Path:
        folder = stream.local or self._local
        return Path(folder) if folder is not None else default_cache_folder()

    def _sources(self) -> list[Source]:
        pairs = zip(self._streams, self._opened, strict=True)
        return [Source(opened, self._cache_folder(stream), self._fetch_of(stream)) for stream, opened in pairs]

    def _fetch_of(self, stream: Stream) -> FetchConfig:
        fetch = self._fetch
        return replace(
            fetch,
            download_retry=_or(stream.download_retry, fetch.download_retry),
            download_timeout_seconds=_or(stream.download_timeout, fetch.download_timeout_seconds),
            validate_hash=bool(_or(stream.validate_hash, fetch.validate_hash)),
            keep_zip=_or(stream.keep_zip, fetch.keep_zip),
        )

    def _recipe(self) -> Recipe:
        return Recipe(self._samples, self._spec.shuffle_seed, self._suffixes)

    def _mixture(self) -> Mixture:
        specs = [
            StreamSpec(
                name, o.primary.shards.num_samples, stream.proportion, stream.repeat, stream.choose, stream.batch_size
            )
            for name, stream, o in zip(self._names, self._streams, self._opened, strict=True)
        ]  # fmt: skip
        return Mixture(tuple(specs), self._epoch_size)

    def _stream_states(self) -> list[StreamState]:
        return [
            StreamState(name, o.identity.snapshot, o.identity.fingerprint, latents_snapshots=o.latents_snapshots)
            for name, o in zip(self._names, self._opened, strict=True)
        ]

    def _order(self) -> EpochOrder:
        if self._resumed is None:
            return EpochOrder(self._spec, self._mixture(), self._epoch)
        return self._resume(self._resumed)

    def _resume(self, state: OrderState) -> EpochOrder:
        mixture, states = self._mixture(), self._stream_states()
        return resume(state, self._spec, mixture, states, change_streams=self._change_streams)

    def _new_run(self) -> EpochRun:
        order = self._order()
        batches = in_buckets(order, lambda rows: self.reading.lengths(rows, self._samples))
        return EpochRun(order, batches, self.world)

    def _shard(self, shard_id: int) -> tuple[ShardAccess, int]:
        number = shard_id
        for reader in self.reading.readers:
            if 0 <= number < len(reader.primary.shards):
                return reader.primary, number
            number -= len(reader.primary.shards)
        raise IndexError(f"shard {shard_id}: there are {sum(len(opened.primary) for opened in self._opened)}")


def _streams(streams: Sequence[Stream] | None, remote: str | None, single: Stream) -> tuple[Stream, ...]:
    if (streams is None) == (remote is None):
        raise ConfigError("pass remote=…, or streams=[Stream(remote=…), …]: one of the two")
    if streams is None:
        return (single,)
    if single.latents or single.snapshot is not None:
        raise ConfigError("latents and snapshot belong to each Stream when streams are given")
    if len({len(stream.latents) for stream in streams}) > 1:
        raise ConfigError(
            "streams of one dataset join the same number of latents folders: give all or none of them latents"
        )
    return tuple(streams)


def _names(streams: Sequence[Stream]) -> list[str]:
    """What saved states know streams by: `demo/audio#train`, so that a copy goes on; all of `remote` if need be."""
    remotes = [os.fspath(stream.remote).rstrip("/") for stream in streams]
    marks = [f"#{stream.split}" if stream.split else "" for stream in streams]
    short = ["/".join(remote.split("/")[-2:]) + mark for remote, mark in zip(remotes, marks, strict=True)]
    full = [remote + mark for remote, mark in zip(remotes, marks, strict=True)]
    found = short if len(set(short)) == len(short) else full
    return [stream.name or name for stream, name in zip(streams, found, strict=True)]


def _or(own: T | None, common: T) -> T:
    """A stream's own value, or that of the dataset."""
    return common if own is None else own


def _buckets(batching: str | LengthBuckets | FrameBudget) -> LengthBuckets | FrameBudget | None:
    if not isinstance(batching, str):
        return batching
    known = {"fixed": None, "length_buckets": LengthBuckets()}
    if batching not in known:
        raise ConfigError(f"batching {batching!r} is not known: expected one of {', '.join(known)}, or FrameBudget(…)")
    return known[batching]
