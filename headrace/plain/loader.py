"""Provides `webdataset_loader`: the pipeline of the `webdataset` library with a length and clear errors.

This module divides shards among ranks and workers, shuffles shards and samples, and makes batches; `tars` reads the
tars, `samples` decodes. As with webdataset itself, the order depends on ranks and workers, and ranks may get unequal
numbers of batches; `headrace.StreamingDataset` has neither limit.
"""

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from headrace.arguments import convert, flag, function, instance, optional, whole
from headrace.errors import ConfigError, ForkedError
from headrace.format.tars.member_names import KeyAt
from headrace.locate.no_shards import no_samples
from headrace.locate.shard_list import LocatedShard, Urls, locate_shards
from headrace.machine import num_cores
from headrace.plain.samples import SampleDecoder, decode_sample, with_shapes_of_padding
from headrace.plain.tars import RawSample, raw_samples
from headrace.plain.torch_workers import stop_workers
from headrace.stores.storage import LocalStorage, Storage
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.stacking import collate
from headrace.streaming.concurrency.fork_server import WorkerStart, prepare_fork_server
from headrace.streaming.concurrency.forks import kept_home
from headrace.streaming.distributed import current_world
from headrace.streaming.selection import key_rule
from headrace.streaming.settings import OnMissingLatents
from headrace.streaming.world import World

if TYPE_CHECKING:
    import torch.utils.data

__all__ = ["WebDatasetLoader", "decode_sample", "webdataset_loader"]

_WORKERS = 2
_MANY_SHARDS = 100  # with fewer, shuffling shards adds little to the sample buffer


def webdataset_loader(  # noqa: PLR0913 - the parameters that users of webdataset and DataLoader expect
    urls: Urls,
    *,
    batch_size: int | None = 1,
    num_workers: int | None = None,
    shuffle_buffer: int = 0,
    shuffle_shards: bool | None = None,
    seed: int = 0,
    split: str | None = None,
    snapshot: int | None = None,
    key_at: str = "first_dot",
    drop_last: bool = False,
    transform: Callable[[Sample], Sample] | None = None,
    on_missing_latents: str = "raise",
    collate_fn: Callable[[Sequence[Sample]], Any] = collate,
    prefetch_factor: int | None = None,
    persistent_workers: bool = True,
    pin_memory: bool = False,
    world: World | None = None,
) -> "WebDatasetLoader":
    """Batches of a WebDataset, decoded, with a length.

    A sample is a dict: `__key__`; `audio` float32 (channels, frames) in [-1, 1] and `sample_rate`, or `encoder_hidden`
    (T, D) and `encoder_length`, which are unpickled with `weights_only=True`; `metadata`, the JSON; other fields as
    bytes. Shards are divided among ranks, then among workers. Each iteration is the next epoch, in its own order.

    Do not pass the result to `accelerate`'s `prepare`, which would divide the shards a second time.

    Args:
        urls: a folder, an output of Headrace, a `sizes.json`, a glob, a brace pattern, or a list of these; see
            `headrace.locate.shard_list.locate_shards`.
        batch_size: samples in a batch; None gives samples, not batches.
        num_workers: number of worker processes, 0 for none; at most one per shard is started. None takes two, or one
            if this process has one core.
        shuffle_buffer: number of undecoded samples per worker from which each next one is drawn; 0 keeps the order.
        shuffle_shards: whether the order of shards is shuffled; None shuffles them when the buffer is used and a rank
            has at least 100 shards.
        seed: seed of both shuffles, combined with the epoch.
        split: only this split; None for all.
        snapshot: number of the snapshot of an output of Headrace; None for the newest.
        key_at: "first_dot", WebDataset's rule, or "last_dot" for tars whose keys hold dots: `x.01.flac` then belongs to
            sample `x.01`, not to sample `x`.
        drop_last: leave out a worker's last batch when it is not full.
        transform: applied to each decoded sample, in the worker.
        on_missing_latents: for a sample whose latents were rejected when they were made: "raise", or "skip", which
            gives a sample with `is_padding` and without a key, made a row of zeros by the default collate. It does not
            pass through the transform; its fields are those of the sample before it.
        collate_fn: makes a batch of samples; see `headrace.collate` for names and shapes of the default.
        prefetch_factor: number of batches that each worker prepares ahead; only used with workers.
        persistent_workers: keep workers between epochs; only used with workers.
        pin_memory: as in `torch.utils.data.DataLoader`.
        world: rank and world size; taken from torch.distributed by default.

    Raises:
        NotFoundError: nothing matches, or a shard or snapshot that is named is not there.
        ConfigError: an argument is not valid, there is no such split, or there are fewer shards than ranks.
    """
    batching = _Batching(batch_size, drop_last, collate_fn)
    shuffle = _Shuffle(seed, shuffle_buffer, shuffle_shards)
    optional(function)("transform", transform)
    rule = key_rule("key_at", key_at)
    on_missing = _on_missing_latents(on_missing_latents)
    wanted = optional(whole)("num_workers", num_workers, least=0)
    of_workers = {
        "persistent_workers": flag("persistent_workers", persistent_workers),
        "prefetch_factor": optional(whole)("prefetch_factor", prefetch_factor, least=1),
    }
    options: dict[str, Any] = {"pin_memory": flag("pin_memory", pin_memory)}
    own_world = optional(instance)("world", world, World, "World(rank, world_size)")
    found = list(map(_anchored, locate_shards(urls, split=split, snapshot=snapshot)))
    if rule is not KeyAt.FIRST_DOT and (built := next((shard for shard in found if shard.is_built), None)):
        raise ConfigError(
            f"key_at={key_at!r} is for plain tars, and {built.url} belongs to an output of Headrace, which knows its "
            "keys: leave it out, or read the two with two loaders"
        )
    shards = _of_rank(found, own_world or current_world())
    options["num_workers"] = min(min(_WORKERS, num_cores()) if wanted is None else wanted, len(shards))
    if options["num_workers"]:  # DataLoader refuses these without workers
        options |= of_workers | {"multiprocessing_context": _start_method(shards)}
        options["worker_init_fn"] = WorkerStart()
    return WebDatasetLoader(shards, shuffle, batching, _Samples(rule, SampleDecoder(transform, on_missing)), options)


def _anchored(shard: LocatedShard) -> LocatedShard:
    """Rename a shard so that its name stays valid when the working directory changes, here or in a worker."""
    return replace(shard, storage=_absolute(shard.storage), indexes=_absolute(shard.indexes))


def _absolute(storage: Storage | None) -> Storage | None:
    return LocalStorage(storage.root.absolute()) if isinstance(storage, LocalStorage) else storage


def _on_missing_latents(choice: str) -> OnMissingLatents:
    allowed = (OnMissingLatents.RAISE, OnMissingLatents.SKIP)
    if choice not in allowed:
        raise ConfigError(
            f"on_missing_latents is {choice!r}: expected one of {', '.join(map(repr, map(str, allowed)))}; "
            "headrace.StreamingDataset also takes 'zeros'"
        )
    return OnMissingLatents(choice)


class WebDatasetLoader:
    """The loader that `webdataset_loader` returns: an iterable of batches (or samples) with a length.

    Iterating raises `SampleError`, `FormatError` or `IntegrityError` for an invalid sample or shard, with its name, and
    `FormatError` when no shard holds a sample. In a process that was forked meanwhile, it raises `ForkedError`.

    Attributes:
        shards: the shards that this rank reads.
        epoch: number of the epoch that the next iteration gives; set it to repeat an epoch or to resume.
    """

    def __init__(
        self,
        shards: Sequence[LocatedShard],
        shuffle: "_Shuffle",
        batching: "_Batching",
        samples: "_Samples",
        options: Mapping[str, Any],
    ) -> None:
        import torch.utils.data

        self.shards = tuple(shards)
        self.epoch = 0
        self._batching = batching
        self._num_workers: int = options["num_workers"]
        self._has_fork_server = options.get("multiprocessing_context") == "forkserver"
        # Shared with the workers, which outlive an epoch: they read its number here, and report that samples came.
        shared = torch.zeros(2, dtype=torch.int64)
        shared.share_memory_()  # type: ignore[no-untyped-call]
        self._epochs = _Epochs(shared, shuffle.among(len(self.shards)))
        pipeline = _pipeline(self.shards, self._epochs, batching, samples)
        self._loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
            pipeline, batch_size=None, **options
        )

    @property
    def num_workers(self) -> int:
        """Number of worker processes: as asked for, at most one per shard."""
        return self._num_workers

    @property
    def num_samples(self) -> int:
        """Number of samples of an epoch on this rank.

        Raises:
            TypeError: the number is not known; the message says how to make it known.
        """
        return sum(self._counts())

    def __len__(self) -> int:
        """Number of batches (or samples) of an epoch on this rank. Raises `TypeError` as `num_samples` does."""
        counts, workers = self._counts(), max(1, self._num_workers)
        return sum(self._batching.num_batches(sum(counts[worker::workers])) for worker in range(workers))

    def __iter__(self) -> Iterator[Any]:
        self._epochs.begin(whole("epoch", self.epoch))
        self.epoch += 1
        if self._has_fork_server:
            prepare_fork_server()
        batches = self._begun()
        try:
            yield from kept_home(batches)
        except ForkedError:
            raise  # the workers are those of another process
        except Exception:
            stop_workers(self._loader, batches)
            raise
        if self.shards and not self._epochs.has_samples:
            raise no_samples(self.shards[0].url, len(self.shards))

    def _begun(self) -> Iterator[Any]:
        """Batches of torch's loader, whose workers run from here on."""
        try:
            return iter(self._loader)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if not self._has_fork_server:
                raise
            raise ConfigError(
                f"transform or collate_fn cannot travel to worker processes ({error}): make it a function of a module, "
                "or use num_workers=0"
            ) from error

    def _counts(self) -> list[int]:
        counts = [shard.counted() for shard in self.shards]
        for shard, count in zip(self.shards, counts, strict=True):
            if count is None:  # TypeError is Python's error for a missing length; tqdm and list() rely on it
                raise TypeError(
                    f"{shard.url}: its number of samples is not known, so this loader has no length; `headrace index` "
                    "writes a sizes.json with the number"
                )
        return cast("list[int]", counts)


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """The two shuffles of an epoch; `shuffles_shards` is None until the number of shards is known."""

    seed: int
    buffer: int
    shuffles_shards: bool | None

    def __post_init__(self) -> None:
        convert(self, whole, "seed")
        convert(self, whole, "buffer", called="shuffle_buffer", least=0)
        convert(self, optional(flag), "shuffles_shards", called="shuffle_shards")

    def among(self, num_shards: int) -> "_Shuffle":
        """Decide `shuffles_shards` by the number of shards where it is None."""
        many = num_shards >= _MANY_SHARDS and self.buffer > 0
        return self if self.shuffles_shards is not None else replace(self, shuffles_shards=many)

    def rng(self, epoch: int, worker: int, purpose: str) -> random.Random:
        """A random generator for one use; seeded by a string, which Python hashes the same way everywhere."""
        return random.Random(f"{self.seed} {epoch} {worker} {purpose}")  # noqa: S311 - a shuffle, not a secret


@dataclass(frozen=True, slots=True)
class _Epochs:
    """The shuffle, and the state of the current epoch in shared memory."""

    now: "torch.Tensor"  # int64 (2,): number of the epoch, and whether it has given a sample
    shuffle: _Shuffle

    def begin(self, epoch: int) -> None:
        self.now[0], self.now[1] = epoch, 0

    def rng(self, worker: int, purpose: str) -> random.Random:
        return self.shuffle.rng(int(self.now[0]), worker, purpose)

    def noting_samples(self, source: Iterator[RawSample]) -> Iterator[RawSample]:
        """Pass samples through and note the first one, because later stages may drop samples."""
        for sample in source:
            self.now[1] = 1
            yield sample
            break
        yield from source

    @property
    def has_samples(self) -> bool:
        return bool(self.now[1])


@dataclass(frozen=True, slots=True)
class _Batching:
    """Size and collation of batches."""

    batch_size: int | None
    drops_last: bool
    collate: Callable[[Sequence[Sample]], Any]

    def __post_init__(self) -> None:
        convert(self, optional(whole), "batch_size", least=1)
        convert(self, flag, "drops_last", called="drop_last")
        convert(self, function, "collate", called="collate_fn")

    def num_batches(self, num_samples: int) -> int:
        """Number of batches that one worker makes of `num_samples` samples."""
        if self.batch_size is None:
            return num_samples
        return num_samples // self.batch_size if self.drops_last else -(-num_samples // self.batch_size)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Reading and decoding of samples."""

    key_at: KeyAt
    decoder: SampleDecoder

    def raw(self, shards: Iterator[LocatedShard]) -> Iterator[RawSample]:
        """The undecoded samples of these shards."""
        return raw_samples(shards, self.key_at)


def _of_rank(shards: list[LocatedShard], world: World) -> list[LocatedShard]:
    """The shards of one rank: every `world_size`-th one. Raises `ConfigError` if there are fewer shards than ranks."""
    if 0 < len(shards) < world.world_size:
        raise ConfigError(
            f"{len(shards)} shards cannot be divided among {world.world_size} ranks: make smaller shards "
            "(shards.samples_per_shard), or use headrace.StreamingDataset, which divides samples"
        )
    return shards[world.rank :: world.world_size]


def _start_method(shards: Sequence[LocatedShard]) -> str | None:
    """Start method of workers: object-store clients run threads, which a fork loses; None for local files."""
    if all(isinstance(shard.storage, LocalStorage | None) for shard in shards):
        return None
    return "forkserver"


def _pipeline(shards: tuple[LocatedShard, ...], epochs: _Epochs, batching: _Batching, samples: _Samples) -> Any:  # noqa: ANN401 - webdataset has no types; this is a torch IterableDataset
    """The stages of the pipeline, some of them webdataset's; it is pickled to the workers."""
    import webdataset as wds

    stages = [_ShardsOfWorker(shards, epochs), samples.raw, epochs.noting_samples]
    if epochs.shuffle.buffer > 1:
        stages.append(_ShuffledSamples(epochs))
    stages += [wds.map(samples.decoder), with_shapes_of_padding]
    if batching.batch_size is not None:
        stages.append(wds.batched(batching.batch_size, collation_fn=batching.collate, partial=not batching.drops_last))
    return wds.DataPipeline(*stages)


@dataclass(frozen=True, slots=True)
class _ShardsOfWorker:
    """The first stage: every `num_workers`-th shard of the rank, shuffled if asked."""

    shards: tuple[LocatedShard, ...]
    epochs: _Epochs

    def __call__(self) -> Iterator[LocatedShard]:
        worker, num_workers = _worker()
        mine = list(self.shards[worker::num_workers])
        if self.epochs.shuffle.shuffles_shards:
            self.epochs.rng(worker, "shards").shuffle(mine)
        return iter(mine)


@dataclass(frozen=True, slots=True)
class _ShuffledSamples:
    """The stage of webdataset's shuffle buffer of undecoded samples, which is filled before the first draw."""

    epochs: _Epochs

    def __call__(self, source: Iterator[RawSample]) -> Iterator[RawSample]:
        import webdataset as wds

        size = self.epochs.shuffle.buffer
        rng = self.epochs.rng(_worker()[0], "samples")
        yield from wds.shuffle(size, initial=size, rng=rng)(source)


def _worker() -> tuple[int, int]:
    """Number of this worker, and the number of workers; (0, 1) outside of workers."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
