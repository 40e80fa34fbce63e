"""`StreamingDataset`: the long signature that users of MosaicML's StreamingDataset know, over small typed parts.

Owns the face: it turns arguments into settings and hands out samples. What is read (`opening`), in which order
(`planner`), how far it is (`progress`) and how samples are made (`assemble`) live in modules of their own. The file is
long because the signature is.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch.utils.data  # noqa: TID253 - a DataLoader asks for its own base class
from numpy.typing import NDArray

from headrace.errors import ConfigError, SampleError
from headrace.streaming import distributed
from headrace.streaming.batches.arena import Allocator, Arena
from headrace.streaming.batches.assemble import Assembler
from headrace.streaming.batches.batch import Sample, padding_like
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import Row
from headrace.streaming.checks import flag, instance, optional, position, whole
from headrace.streaming.epochs import EpochRun, Share
from headrace.streaming.opening import OpenStreams, StreamDefaults
from headrace.streaming.order.spec import (
    DEFAULT_CANONICAL_NODES,
    DEFAULT_SEED,
    FrameBudget,
    LengthBuckets,
    OrderSpec,
    buckets_of,
)
from headrace.streaming.planner import Planner
from headrace.streaming.prefetch import Prefetcher
from headrace.streaming.progress import Progress
from headrace.streaming.reading import Reading
from headrace.streaming.settings import FetchConfig, OnBadSample, Output, SampleConfig, Transform, parse_bytes
from headrace.streaming.simulation import Cluster, Extent, Simulation, simulate
from headrace.streaming.state import OrderState
from headrace.streaming.stream import Stream, chosen
from headrace.streaming.world import World

if TYPE_CHECKING:
    from headrace.streaming.order.spec import BatchingMethod, LastBatch, SamplingMethod, ShuffleAlgo


class StreamingDataset(torch.utils.data.IterableDataset[Sample]):
    """Samples in an order that is exact, elastic and resumable, from our shards or any plain WebDataset.

    What arrives depends on the arguments, the data and the state alone; how fast, on threads, workers, prefetch and
    cache. Global batches are the same on every world size. Each iteration is the next epoch.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse what users of the reference do, and what would have no effect here. Raises `ConfigError`."""
        super().__init_subclass__(**kwargs)
        for name in ("__getitem__", "get_item"):
            if getattr(cls, name) is not getattr(StreamingDataset, name):
                raise ConfigError(
                    f"{cls.__name__}.{name} would not be called, since batches are not made of single samples: pass "
                    "what it does to a sample's dict as transform=…, or give it another name"
                )

    def __init__(  # noqa: PLR0913 - the signature that users of the reference know, and what is ours
        self,
        *,
        streams: Sequence[Stream] | Stream | None = None,
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
            streams: data sets to mix, or one; instead of `remote`.
            remote: an `audio/` or `latents/<name>/` folder or prefix, or any plain WebDataset: folder, `sizes.json`,
                glob, brace pattern or the shard list of wids.
            local: folder of the cache for shards of a store, shared by all processes of a host; None takes one below
                the temporary folder. A local `remote` is read in place and needs none. `local` without `remote` and
                `streams` is the data set itself, read in place as if it were given as `remote`.
            split: None for all.
            download_retry: further attempts after a failed one.
            download_timeout: seconds that a request may take to its last byte; whole shards come in requests of 8 MiB.
            validate_hash: check the digests of local files too, those in the cache included (any true value); whole
                shards are always checked when they are downloaded.
            keep_zip: keep foreign `.tar.gz` and `.tar.zst` shards in the cache beside their unpacked form.
            epoch_size: samples of an epoch under relative weights: 100000, "100k", "64M", "77b"; None, 0 or "" takes as
                many as the streams hold.
            predownload: samples per rank to download ahead, at least 8 batches; None takes a shuffle block.
            cache_limit: bound of the cache folder: bytes, or "50gb" (of 1,024s).
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
            transform: called with each sample's dict; its result is what arrives. If it has a parameter `rng`, it gets
                a `numpy.random.Generator` seeded by seed, epoch and position: what it draws is the same on every world
                and after a resume. `StreamingDataLoader` calls it on several threads at once; in worker processes on
                one, and there the global random generators are seeded for each batch from its epoch and position.
            crop_frames: frames to cut out of each sample, at a place drawn from seed, epoch and position; of audio,
                if there is audio. Joined latents are cut with it, and the audio where a latent frame begins.
                `frame_offset` and `encoder_offset` say where, in stored frames.
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
        own_world = optional(instance)("world", world, World, "World(rank, world_size)")
        self.world = own_world or distributed.current_world()
        self.batch_size = optional(whole)("batch_size", batch_size, least=1) or 1
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
        spec = OrderSpec(
            global_batch_size=self.batch_size * self.world.world_size,
            shuffle=shuffle,
            shuffle_algo=cast("ShuffleAlgo", shuffle_algo),  # OrderSpec checks names and converts them
            shuffle_seed=shuffle_seed,
            num_canonical_nodes=DEFAULT_CANONICAL_NODES if num_canonical_nodes is None else num_canonical_nodes,
            shuffle_block_size=shuffle_block_size,
            batching_method=cast("BatchingMethod", batching_method),
            sampling_method=cast("SamplingMethod", sampling_method),
            sampling_granularity=sampling_granularity,
            last_batch=cast("LastBatch", last_batch),
            buckets=buckets_of(batching),
            crop_frames=self._samples.crop_frames,
            crop_seconds=self._samples.crop_seconds,
            sample_rate=self._samples.sample_rate_hz,
        )
        if streams is not None and (latents or snapshot is not None):
            raise ConfigError("latents and snapshot belong to each Stream when streams are given")
        is_single = remote is not None or (streams is None and local is not None)
        single = Stream(remote, local, latents=latents, snapshot=snapshot) if is_single else None
        defaults = StreamDefaults(local if single is None else None, split, self._fetch)  # the stream has it
        self._streams = OpenStreams(*chosen(streams, single), defaults, has_own_world=own_world is not None)
        self._planner = Planner(
            spec, self._streams, self.world, self._samples, epoch_size, flag("change_streams", change_streams)
        )
        self._planner.check()
        self._progress = Progress(self._planner)
        self._num_bad = 0

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
        return self._streams.num_samples

    @property
    def num_samples(self) -> int:
        """Samples of the next epoch over all ranks, padding not counted."""
        return self._progress.next_order().num_samples

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iteration gives, or goes on with."""
        return self._progress.next_epoch

    def __len__(self) -> int:
        """Rows of one rank in the next iteration, padding included: torch's DataLoader divides it by its batch size."""
        run = self._progress.next_run()
        if isinstance(self._planner.spec.buckets, FrameBudget):  # whose positions do not count padding
            return sum(len(plan.rows) for plan in run.plans())
        return run.num_rows

    @property
    def num_batches(self) -> int:
        """Batches of one rank in the next iteration; the same on every rank."""
        return len(self._progress.next_run())

    # Samples

    def __iter__(self) -> Iterator[Sample]:
        """The next epoch's samples of this rank, one by one, padding rows too (`is_padding`).

        In a worker of torch's DataLoader: those of every num_workers-th batch, so that batches arrive in the same order
        as without workers if the DataLoader has this dataset's `batch_size`.
        """
        info = torch.utils.data.get_worker_info()
        share = Share(info.id, info.num_workers) if info is not None else Share()
        run = self.begin()
        start = self._progress.take_first_batch()
        assembler, prefetcher = self.assembler(), self.prefetcher(run, share, start)
        pattern: Sample | None = None
        try:
            for index in share.numbers(start, len(run)):
                plan = run.plan(index)
                rows = assembler.rows(plan)
                for number, row in enumerate(rows, 1):
                    sample = None if row is None else self._read(assembler, row, plan.epoch)
                    pattern = sample or pattern or assembler.pattern(plan.epoch)
                    is_last = number == len(rows)
                    self._progress.delivered(run, index + is_last, 0 if is_last else number)
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
            TypeError: `sample_id` is no whole number.
            SampleError: it cannot be read.
        """
        row = self._streams.row(sample_id)
        return Assembler([], self._recipe(), Arena(0)).sample(row, self.next_epoch)

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
        return self._progress.state(num_samples, from_beginning=from_beginning)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Go on from a saved state at the next iteration, on any number of ranks and workers.

        A state selects its own snapshots.

        Raises:
            StateError: something that the order depends on differs, or a snapshot is gone; names the field, both values
                and the way out.
        """
        state = OrderState.from_json(obj)
        with self._streams.reopened(state):
            order = self._planner.resumed(state)  # refuse now what would be refused at the next iteration
            if self._planner.has_ended(order, order.start):  # by what counts samples itself, or at another batch size
                state = self._planner.state(self._planner.order(state.epoch + 1), 0)
            self._progress.load(state, obj.get("worker"))

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
        access, shard = self._streams.shard(shard_id)
        access.bring(shard)
        if blocking and access.in_place(shard) is None:
            access.open(shard, lambda: [(0, 0)], patient=True)

    def evict_shard(self, shard_id: int) -> bool:
        """Remove a shard from the cache unless a process has it open. Returns whether it is gone. Never a local one."""
        access, shard = self._streams.shard(shard_id)
        access.close_idle()
        return access.in_place(shard) is None and access.cache.evict(access.cache_name(shard))

    def evict_coldest_shard(self) -> str | None:
        """Remove the shard that was not used for longest from the cache. Returns its name; None if there is none."""
        for reader in self.reading.readers:
            for access in (reader.primary, *reader.joined):
                access.close_idle()
        return next((name for cache in self.reading.caches if (name := cache.evict_coldest())), None)

    def resample_streams(self, epoch: int, stream_id: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What an epoch takes of each shard: for inspection; it lists the whole epoch, which reading never does.

        Args:
            epoch: its number.
            stream_id: one stream; None for all, numbered end to end.

        Returns:
            Samples taken of each shard, int64 (num_shards,); and the sample ids taken, sorted, int64.

        Raises:
            ConfigError: `epoch` is no whole number from 0 on.
            IndexError: there is no such stream.
        """
        order = self._planner.order(whole("epoch", epoch, least=0))
        if stream_id is not None and not 0 <= position("stream", stream_id) < len(self.reading.readers):
            raise IndexError(f"stream {stream_id}: there are {len(self.reading.readers)}")
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

    # Ahead of a run

    def simulate(
        self,
        cluster: Cluster | None = None,
        *,
        num_batches: int | None = None,
        num_hosts: int = 1,
        progress: Callable[[], object] = lambda: None,
    ) -> Simulation:
        """What the next epoch will ask of a job's hosts: shards, cache, traffic and waits, told without reading one.

        Make the dataset with `world=World(0, world_size)` of the job, and with its `cache_limit` and `predownload`. Its
        data may be local; it is taken as if it came from a store.

        Args:
            cluster: the machines; None takes hosts of one rank with nothing to wait for.
            num_batches: how many batches from the epoch's first on; None for all.
            num_hosts: how many hosts to simulate, spread evenly over all.
            progress: called for each batch of each of them.

        Raises:
            ConfigError: an argument is out of range, or the ranks do not fill the hosts.
        """
        extent = Extent(num_batches, num_hosts, progress)
        return simulate(self._planner, self._fetch, self.next_epoch, cluster or Cluster(), extent)

    # For the loader

    @property
    def reading(self) -> Reading:
        """The streams as this process reads them."""
        return self._streams.reading

    def next_run(self) -> EpochRun:
        """The next epoch, or the rest of the one that a state was saved in, without starting it."""
        return self._progress.next_run()

    def num_batches_before(self, run: EpochRun) -> int:
        """Batches of one rank that lie before a run in its epoch: 0 unless a state was loaded there."""
        return self._planner.num_batches_before(run.order)

    def begin(self) -> EpochRun:
        """Start the next epoch, or go on with the one that a state was saved in."""
        if (state := self._progress.loaded_elsewhere()) is not None:
            self.load_state_dict(state)
        if torch.utils.data.get_worker_info() is None:
            self._streams.agree(self.world, self._progress.waiting)
        run = self._progress.begin()
        if not len(run) and not run.order.start and run.order.num_samples:
            warnings.warn(
                f"no batch will come: the epoch's {run.order.num_samples} samples fill no global batch, and "
                "last_batch='drop' leaves out the rest; lower batch_size, or use last_batch='pad'",
                stacklevel=2,
            )
        return run

    def delivered(self, run: EpochRun, num_batches: int) -> None:
        """The loader handed out this many batches of a run."""
        self._progress.delivered(run, num_batches)

    def assembler(self, allocator: Allocator | None = None) -> Assembler:
        """What makes batches of these streams in this process."""
        return Assembler(self.reading.readers, self._recipe(), allocator or Arena())

    def prefetcher(self, run: EpochRun, share: Share = Share(), start: int = 0) -> Prefetcher | None:  # noqa: B008 - frozen
        """What downloads the shards that a run needs from batch `start` on; None where all are local."""
        if self.reading.is_local:
            return None
        horizon = self._planner.batches_ahead(run, self._fetch.predownload)
        return Prefetcher(self.reading.readers, run, share, horizon, start)

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

    def _recipe(self) -> Recipe:
        return Recipe(self._samples, self._planner.spec.shuffle_seed, self._streams.suffixes)
