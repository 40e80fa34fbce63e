"""Defines `StreamingDataset`, with the parameters of MosaicML's StreamingDataset.

The class turns its arguments into settings and delegates: `opening` opens the streams, `planner` makes the order, and
`epoch_reader` delivers samples and counts the position. The file is long because the signature is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch.utils.data  # noqa: TID253 - a DataLoader asks for its own base class
from numpy.typing import NDArray

from headrace.arguments import each, flag, instance, one_of, optional, parse_bytes, text, whole
from headrace.errors import ConfigError
from headrace.streaming import distributed
from headrace.streaming.batches.batch import Sample
from headrace.streaming.opened.opening import OpenStreams, StreamDefaults
from headrace.streaming.opened.reading import StreamReaders
from headrace.streaming.order.spec import (
    DEFAULT_CANONICAL_NODES,
    DEFAULT_SEED,
    FrameBudget,
    LengthBuckets,
    OrderSpec,
    buckets_of,
)
from headrace.streaming.output_fields import with_padding
from headrace.streaming.run import shard_tools
from headrace.streaming.run.epoch_reader import EpochReader
from headrace.streaming.run.other_loaders import check_loader
from headrace.streaming.run.planner import Planner, in_frames
from headrace.streaming.selection import Selection
from headrace.streaming.settings import (
    ArrayType,
    Decode,
    FetchSettings,
    OnBadSample,
    OnMissingLatents,
    SampleSettings,
    Transform,
)
from headrace.streaming.simulated.simulation import Cluster, Extent, Simulation, simulate
from headrace.streaming.stream import Stream, chosen
from headrace.streaming.world import World

if TYPE_CHECKING:
    from headrace.format.tars.member_names import KeyAt
    from headrace.streaming.order.spec import BatchingMethod, LastBatch, SamplingMethod, ShuffleAlgo
    from headrace.streaming.rasters import Raster
    from headrace.streaming.selection import WantedTensor
    from headrace.streaming.windows import LastWindow


class StreamingDataset(torch.utils.data.IterableDataset[Sample]):
    """Samples in an exact, elastic and resumable order, from the shards of Headrace or any plain WebDataset.

    The samples depend only on the arguments, the data and the state; threads, workers, prefetch and cache change only
    the speed. Global batches are the same on every world size. Each iteration is the next epoch.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reject overridden methods that MosaicML calls and this class does not. Raises `ConfigError`."""
        super().__init_subclass__(**kwargs)
        for name in ("__getitem__", "get_item"):
            if getattr(cls, name) is not getattr(StreamingDataset, name):
                raise ConfigError(
                    f"{cls.__name__}.{name} would not be called, since batches are not made of single samples: pass "
                    "a function of a sample's dict as transform=…, or give the method another name"
                )

    def __init__(  # noqa: PLR0913 - the parameters of MosaicML, and those of Headrace
        self,
        *,
        streams: Sequence[Stream] | Stream | None = None,
        remote: str | Sequence[str] | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int | None = None,
        download_timeout: float = 60,
        validate_hash: bool | str | None = None,
        keep_zip: bool = False,
        epoch_size: int | str | None = None,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",
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
        view: str | None = None,
        where: str | None = None,
        key_at: str = "first_dot",
        last_batch: str = "pad",
        batching: str | LengthBuckets | FrameBudget = "fixed",
        transform: Transform | None = None,
        crop_frames: int | None = None,
        crop_seconds: float | None = None,
        sample_rate: int | None = None,
        on_bad_sample: str = "raise",
        max_bad_samples: int = 100,
        on_missing_latents: str = "raise",
        output: str = "torch",
        change_streams: bool = False,
        columns: Sequence[str] = (),
        tensors: Sequence[str] | Mapping[str, float | Sequence[str]] = (),
        fields: Sequence[str] | None = None,
        decode: str = "none",
        pad: Mapping[str, float] = MappingProxyType({}),
        batch_transform: Transform | None = None,
        window_seconds: float | None = None,
        window_hop_seconds: float | None = None,
        last_window: str = "pad",
        rasters: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        valid_frames: bool = False,
        crop_min_dbfs: float | None = None,
        crop_draws: int = 8,
        exclude: Sequence[str] = (),
    ) -> None:
        """Open the streams. No thread starts, and no shard is read, before the first sample is needed.

        For columns, the JSON of one sample is read, to compare names; for `FrameBudget`, counts of lengths.

        Args:
            streams: data sets to mix, or one data set; instead of `remote`.
            remote: an `audio/` or `latents/<name>/` folder or prefix, the root of an output (which means its `audio/`),
                or any plain WebDataset: folder, `sizes.json`, glob, brace pattern, text list or shard list of wids;
                also on the Hugging Face Hub (`hf://`), at one commit. Also the signed URL of a tar, whose signature is
                in no state, message or name of a cached file. Or a list of paths or URLs of tars, read in its order.
            local: folder of the cache for shards of a store, shared by all processes of a host; None takes one below
                the temporary folder. A local `remote` is read in place without a cache. `local` without `remote` and
                `streams` is the data set itself, read in place as if it were given as `remote`.
            split: None for all.
            download_retry: how often a failed request is sent again, with growing pauses, which are longer if the store
                requests it (Retry-After); None keeps trying for 120 s. Responses 401, 403 and 404 are errors at once.
            download_timeout: seconds that a request may take to its last byte; whole shards take requests of 8 MiB.
            validate_hash: True or "sha256" also checks the digests of local files and of cached files; whole shards are
                always checked when they are downloaded.
            keep_zip: keep `.tar.gz` and `.tar.zst` shards in the cache beside their unpacked form.
            epoch_size: samples of an epoch with relative weights: 100000, "100k", "64M", "77b"; None, 0 or "" takes as
                many as the streams have.
            predownload: samples per rank to download ahead, at least 8 batches; None takes a shuffle block.
            cache_limit: limit of the cache folder: bytes, or "50gb" (powers of 1,024).
            sampling_method: "balanced" or "fixed": whether a partial pass takes different samples in each epoch.
            sampling_granularity: consecutive samples that a partial pass takes or leaves out together.
            partition_algo: "relaxed" or "orig"; part of MosaicML's interface and without effect here, since the order
                does not depend on the world.
            num_canonical_nodes: nodes that take turns in a shuffle block; None takes 64, on every world.
            batch_size: samples of a batch on one rank; None takes 1.
            shuffle: False reads in storage order.
            shuffle_algo: "block", "full" or one of MosaicML's names.
            shuffle_seed: any integer.
            shuffle_block_size: samples of a shuffle block; None takes the samples of 64 shards.
            batching_method: "random", "stratified", "per_stream" or "device_per_stream".
            world: rank and world size; None takes them from torch.distributed, or `RANK` and `WORLD_SIZE`. If given,
                ranks do not agree on the newest snapshot: pin `snapshot` if one may be committed meanwhile.
            snapshot: number to read; None for the newest (that of rank 0 under torch.distributed).
            latents: sets of latents to join to the audio of `remote` by key: names of sets of the output that `remote`
                belongs to (`["crepe"]` for `latents/crepe`), or folders of latents.
            view: name of a view of the output that `remote` belongs to, or the folder of a view: an epoch takes each
                sample as often as the view says. Audio, view and latents are read at the newest audio snapshot that all
                of them have.
            where: a condition on the columns of the output that `remote` belongs to, such as "snr > 20 and lang='de'":
                samples that do not fulfil it are left out. It is evaluated once, on the columns of all samples, and
                kept in the cache folder; this needs the extra `where` (polars). A view with the same condition needs
                neither.
            key_at: where the key ends in the names of files in plain tars: "first_dot", WebDataset's rule, or
                "last_dot" for tars whose keys have dots: `x.01.flac` then belongs to sample `x.01`, not to sample `x`.
                For outputs of Headrace the keys are known.
            last_batch: "pad" or "drop".
            batching: "fixed", "length_buckets", `LengthBuckets(…)` or `FrameBudget(…)`.
            transform: called with each sample's dict; its result replaces the sample. If it has a parameter `rng`, it
                gets a `numpy.random.Generator` seeded by seed, epoch and position, whose numbers are the same on every
                world and after a resume. `StreamingDataLoader` calls it on several threads at once; in worker processes
                on one, with the global random generators seeded for each batch from its epoch and position.
            crop_frames: frames to cut out of each sample, at a place that is drawn from seed, epoch and position; of
                the audio, if there is audio. Joined latents are cut with it, and the audio is cut at the beginning of a
                latent frame. `frame_offset` and `encoder_offset` are the places, in stored frames.
            crop_seconds: the same in seconds.
            sample_rate: resample audio to this rate, Hz.
            on_bad_sample: "raise", or "skip": a row of padding instead.
            max_bad_samples: how many bad samples this rank may skip.
            on_missing_latents: for a sample whose latents were rejected when they were made (not finite, or too large
                for their dtype): "raise", "skip" (a row of padding instead) or "zeros" (latents of length 0).
            output: "torch" or "numpy".
            change_streams: whether a loaded state may have another mixture, which the current one then replaces.
            columns: sets of columns to join to the metadata of the samples: names of sets of the output that `remote`
                belongs to (`["captions"]` for `columns/captions`), or folders of columns. A sample without a value has
                None. The set "metadata" adds what the samples' JSON lacks.
            tensors: columns of numbers that come as tensors under their own names: float32 with NaN where a sample has
                no value, int64, or bool; `{"snr": 0.0}` gives the value for samples without one, which integers need.
                Text comes as int64, the places of its values in `{"species": ["crow", "owl"]}` or, if `source.labels`
                of the YAML names it, in `labels`; -1 where a sample has none.
                Names that are in none of the `columns` are looked for in the set "metadata".
            fields: the only fields to read and decode: "audio" or names of audio fields, "encoder_hidden" and its
                joined variants, "metadata" (the JSON), and extensions of other files. None reads all fields.
            decode: "basic" decodes other files of plain WebDatasets by their extensions (docs/batches.md), without ever
                unpickling; "none" gives their bytes.
            pad: fields of a transform whose values (L, …) differ in length, and what each is padded with:
                `{"tokens": 0}` gives `tokens` (B, L, …) and `tokens_length` (B,).
            batch_transform: called with each batch's dict on the threads or in the processes of `StreamingDataLoader`;
                its result is delivered instead. A parameter `rng` gets a generator seeded by seed, epoch and batch.
            window_seconds: cut each sample into windows of this length: each of them is an item of the epoch. Not with
                `crop_frames` and `crop_seconds`. The first opening on a host reads all indexes.
            window_hop_seconds: from the beginning of a window to that of the next one; None for `window_seconds`.
            last_window: "pad" keeps the frames at the end of a sample that do not fill a window, as a window of their
                own; "drop" leaves them out, and samples that are shorter than a window.
            rasters: fields that are grids of time with the events of a column of the metadata, dicts with `start`,
                `end` in seconds and a `label`: `{"chords": {"column": "chords", "hz": 50, "classes": ["C", "G"]}}` is
                int64 (B, T), the place of the label in `classes` and -1 outside of events; with `"multi": True`, bool
                (B, T, C). The column in the metadata is cut as crops and windows are.
            valid_frames: add the field `valid_frames`, bool (B, N): which frames of `audio` are not padding.
            crop_min_dbfs: draw another place for a crop whose RMS level (dB of full scale) is lower, `crop_draws` times
                in all; if all are lower, the loudest is taken.
            crop_draws: see `crop_min_dbfs`.
            exclude: keys of samples that must not be delivered any more: each is a padding row (`is_padding`), and all
                other rows are what and where they were, on any number of ranks, also after a resume. Reads all indexes.

        Raises:
            ConfigError: an argument is not allowed, or arguments contradict each other.
            NotFoundError: no such snapshot.
        """
        own_world = optional(instance)("world", world, World, "World(rank, world_size)")
        self.world = own_world or distributed.current_world()
        self.batch_size = optional(whole)("batch_size", batch_size, least=1) or 1
        one_of("partition_algo", partition_algo, "relaxed", "orig")
        self._fetch = FetchSettings(
            download_retry,
            download_timeout,
            cast("bool", validate_hash),  # FetchSettings checks and converts it
            keep_zip,
            parse_bytes(cache_limit),
            predownload,
        )
        self._samples = SampleSettings(
            crop_frames=crop_frames,
            crop_seconds=crop_seconds,
            sample_rate_hz=sample_rate,
            transform=transform,
            on_bad_sample=cast("OnBadSample", on_bad_sample),
            max_bad_samples=max_bad_samples,
            output=cast("ArrayType", output),
            on_missing_latents=cast("OnMissingLatents", on_missing_latents),
            decode=cast("Decode", decode),
            pad=pad,
            batch_transform=batch_transform,
            valid_frames=valid_frames,
            crop_min_dbfs=crop_min_dbfs,
            crop_draws=crop_draws,
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
        selection = Selection(  # which converts the arguments
            split,
            snapshot,
            view,
            where,
            cast("tuple[str, ...]", latents),
            cast("tuple[str, ...]", columns),
            cast("tuple[WantedTensor, ...]", tensors),
            cast("tuple[str, ...]", fields),
            cast("KeyAt", key_at),
            window_seconds,
            window_hop_seconds,
            cast("LastWindow", last_window),
            cast("tuple[tuple[str, Raster], ...]", rasters),
        )
        if streams is not None and (selection.latents or snapshot is not None):
            raise ConfigError("latents and snapshot belong to each Stream when streams are given")
        is_single = remote is not None or (streams is None and local is not None)
        single = Stream(remote, local) if is_single else None
        defaults = StreamDefaults(local if single is None else None, selection, self._fetch, self._samples)
        self._streams = OpenStreams(*chosen(streams, single), defaults, has_own_world=own_world is not None)
        self._planner = Planner(
            in_frames(spec, self._streams, self._samples),
            self._streams,
            self.world,
            self._samples,
            epoch_size,
            flag("change_streams", change_streams),
            each("exclude", exclude, text, "a list of keys of samples"),
        )
        self.epochs = EpochReader(self._planner, self._streams, self.world, self._samples, self._fetch.predownload)
        if own_world is None and distributed.is_up():
            self.epochs.compare_ranks()
        with_padding(self._streams.outputs, self._samples.pad)  # raises if something else than codes is padded
        if self._samples.crops and self._streams.has_windows:
            raise ConfigError("window_seconds and a crop are both given: windows are cut one after the other; pass one")
        self._planner.check()
        if isinstance(spec.buckets, FrameBudget):
            self.epochs.next_run()  # raises if the budget has no room for the longest sample

    # Properties

    @property
    def output(self) -> ArrayType:
        """Type of the arrays in batches."""
        return self._samples.output

    @property
    def transforms_batches(self) -> bool:
        """Whether batches are changed by the user's `batch_transform`."""
        return self._samples.batch_transform is not None

    @property
    def max_bad_samples(self) -> int:
        """Number of bad samples that a rank may skip."""
        return self._samples.max_bad_samples

    @property
    def size(self) -> int:
        """Samples of all streams, each counted once; with a view, as often as the view takes it."""
        return self._streams.num_samples

    @property
    def num_samples(self) -> int:
        """Samples of the next epoch over all ranks, without padding."""
        return self.epochs.progress.next_order().num_samples

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return self.epochs.progress.next_epoch

    def __len__(self) -> int:
        """Rows of one rank in the next iteration, with padding: torch's DataLoader divides them by its batch size."""
        run = self.epochs.progress.next_run()
        check_loader(self.batch_size, self.world.world_size, is_even=self._planner.has_even_batches)
        return run.num_rows

    @property
    def num_batches(self) -> int:
        """Batches of one rank in the next iteration; the same on every rank."""
        return len(self.epochs.progress.next_run())

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Column of text that comes as a tensor → its values; the place of a value is its number."""
        return self._streams.labels

    @property
    def reading(self) -> StreamReaders:
        """The streams as this process reads them, for loaders and tools."""
        return self._streams.reading

    # Samples

    def __iter__(self) -> Iterator[Sample]:
        """The samples of this rank in the next epoch, one by one, with padding rows (`is_padding`).

        A worker of torch's DataLoader gets every num_workers-th batch, so batches arrive in the same order as without
        workers if the DataLoader has the `batch_size` of this dataset.
        """
        return self.epochs.samples()

    def get_item(self, sample_id: int, retry: int = 7) -> Sample:
        """A sample by its number over all streams in storage order; of a remote shard, only its bytes are fetched.

        Args:
            sample_id: from 0 to `size` - 1; negative numbers count from the end.
            retry: a whole number from 0 on; part of MosaicML's interface and without effect here. In MosaicML it is how
                often an evicted shard is fetched again, which is not a failure here; see `download_retry`.

        Raises:
            ConfigError: `retry` is not such a number.
            IndexError: there is no such sample.
            TypeError: `sample_id` is not a whole number.
            SampleError: the sample cannot be read.
        """
        whole("retry", retry, least=0)
        return self.epochs.sample(self._streams.row(sample_id))

    def __getitem__(self, sample_id: int) -> Sample:
        """See `get_item`."""
        return self.get_item(sample_id)

    # State

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - MosaicML's signature
        """The position after the delivered samples, or after `num_samples`, as readable JSON.

        Args:
            num_samples: samples of the epoch that were processed over all ranks, with padding rows; None takes those
                that this dataset, or its loader, delivered.
            from_beginning: True counts `num_samples` from the beginning of the epoch, False from where this run began.
        """
        return self.epochs.progress.state(num_samples, from_beginning=flag("from_beginning", from_beginning))

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Continue from a saved state at the next iteration, on any number of ranks and workers.

        A state selects its own snapshots.

        Raises:
            StateError: something that the order depends on differs, or a snapshot is gone; the message has the field,
                both values and a remedy.
        """
        self.epochs.load(obj)

    def set_epoch(self, epoch: int) -> None:
        """Begin with an epoch, unless samples were delivered or a state was loaded: epochs are counted from there on.

        Trainers call this before each epoch, also after they have resumed.
        """
        is_late = self.epochs.is_in_mid_epoch
        check_loader(self.batch_size, self.world.world_size, is_even=True, is_in_mid_epoch=is_late)
        self.epochs.progress.tell_epoch(whole("epoch", epoch, least=0))

    # Shards and cache

    @property
    def cache_usage(self) -> int:
        """Bytes in the cache folders."""
        return sum(cache.usage_bytes() for cache in self.reading.caches)

    def prepare_shard(self, shard_id: int, blocking: bool = True) -> None:  # noqa: FBT001, FBT002 - MosaicML's signature
        """Download a shard into the cache; a local shard is read in place.

        Args:
            shard_id: number of the shard over all streams.
            blocking: whether to wait if another process downloads the shard.
        """
        shard_tools.prepare(self._streams, shard_id, is_patient=flag("blocking", blocking))

    def evict_shard(self, shard_id: int) -> bool:
        """Remove a shard from the cache unless a process has it open; never a local one. Returns whether it is gone."""
        return shard_tools.evict(self._streams, shard_id)

    def evict_coldest_shard(self) -> str | None:
        """Remove the least recently used shard from the cache. Returns its name, or None."""
        return shard_tools.evict_coldest(self.reading)

    def resample_streams(self, epoch: int, stream_id: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the samples that an epoch takes of each shard, for inspection; this needs memory for the whole epoch.

        Args:
            epoch: number of the epoch.
            stream_id: number of a stream; None for all, with samples numbered end to end.

        Returns:
            Number of samples of each shard, int64 (num_shards,); and the sample ids, sorted, int64.

        Raises:
            ConfigError: `epoch` is not a whole number from 0 on.
            IndexError: there is no such stream.
        """
        number_of_epoch = whole("epoch", epoch, least=0)
        return shard_tools.taken(self._planner, number_of_epoch, self.reading.readers, stream_id)

    # Simulation

    def simulate(
        self,
        cluster: Cluster | None = None,
        *,
        num_batches: int | None = None,
        num_epochs: int = 1,
        num_hosts: int = 1,
        progress: Callable[[], object] = lambda: None,
    ) -> Simulation:
        """Simulate the next epochs on the hosts of a job: shards, cache, traffic and waits. No shard is read.

        Make the dataset with `world=World(0, world_size)` of the job, and with its `cache_limit` and `predownload`. The
        data may be local; the simulation treats it as if it were in a store.

        Args:
            cluster: the machines; None takes hosts of one rank with an unlimited link and steps of no time.
            num_batches: number of batches from the first of each epoch on; None for all.
            num_epochs: number of epochs.
            num_hosts: number of hosts to simulate, spread evenly over all.
            progress: called for each batch of each simulated host.

        Raises:
            ConfigError: an argument is out of range, or the ranks do not fill the hosts.
        """
        extent = Extent(num_batches, num_epochs, num_hosts, progress)
        machines = optional(instance)("cluster", cluster, Cluster, "Cluster(ranks_per_host, …)") or Cluster()
        return simulate(self._planner, self._fetch, self.next_epoch, machines, extent)
