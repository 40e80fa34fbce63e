"""The plain WebDataset pipeline over the shards of Headrace or of anybody else, done right.

Owns `webdataset_loader`: resolving names before webdataset sees them, dividing shards among ranks and workers, the two
shuffles, batches and a length; tars are read in `web_tars` and decoded in `web_samples`. What it gives is approximate
where webdataset is: the order depends on ranks and workers, and ranks may get unequal numbers of batches.
`headrace.StreamingDataset` has neither limit.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from headrace.errors import ConfigError, FormatError
from headrace.shardlists import Shard, Urls, resolve_shards
from headrace.storage import LocalStorage
from headrace.streaming.batches.batch import Sample, collate
from headrace.streaming.checks import convert, flag, function, instance, optional, whole
from headrace.streaming.distributed import current_world
from headrace.streaming.world import World
from headrace.web_samples import Decoder, decode_sample
from headrace.web_tars import RawSample, raw_samples

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

__all__ = ["WebDatasetLoader", "decode_sample", "webdataset_loader"]

_MANY_SHARDS = 100  # of fewer, an order by shard says little; the sample buffer mixes as well


def webdataset_loader(  # noqa: PLR0913 - the face that users of webdataset and DataLoader expect
    urls: Urls,
    *,
    batch_size: int | None = 1,
    num_workers: int = 0,
    shuffle_buffer: int = 0,
    shuffle_shards: bool | None = None,
    seed: int = 0,
    split: str | None = None,
    snapshot: int | None = None,
    drop_last: bool = False,
    transform: Callable[[Sample], Sample] | None = None,
    collate_fn: Callable[[Sequence[Sample]], Any] = collate,
    prefetch_factor: int | None = None,
    persistent_workers: bool = True,
    pin_memory: bool = False,
    world: World | None = None,
) -> "WebDatasetLoader":
    """Batches of a WebDataset, decoded, with a length.

    A sample is a dict: `__key__`; `audio` float32 (channels, frames) in [-1, 1] and `sample_rate`, or `encoder_hidden`
    (T, D) and `encoder_length`, which are unpickled with `weights_only=True`; `metadata`, the JSON; other fields as
    bytes. Shards are divided among ranks, then among workers. Each iteration is the next epoch with its own order.

    Do not pass the result to `accelerate`'s `prepare`, which divides what is divided already.

    Args:
        urls: a folder, an output of ours, a `sizes.json`, a glob, a brace pattern, or a list; see `resolve_shards`.
        batch_size: samples in a batch; None gives samples, not batches.
        num_workers: worker processes, 0 for none; never more than there are shards.
        shuffle_buffer: undecoded samples from which each next one is drawn, per worker; 0 keeps the order.
        shuffle_shards: whether the order of shards is shuffled; by default when the buffer is used and a rank has at
            least 100 shards.
        seed: of both shuffles, with the epoch.
        split: only this split.
        snapshot: of an output of ours; the newest by default.
        drop_last: leave out a worker's last batch when it is not full.
        transform: applied to each decoded sample, in the worker.
        collate_fn: samples to batch; see `headrace.collate` for the default's names and shapes.
        prefetch_factor: batches that each worker prepares ahead; only used with workers.
        persistent_workers: keep workers between epochs; only used with workers.
        pin_memory: as in `torch.utils.data.DataLoader`.
        world: which rank this is; from torch.distributed by default.

    Raises:
        NotFoundError: nothing matches, or a shard or snapshot that is named is not there.
        ConfigError: an argument is not allowed, there is no such split, or there are fewer shards than ranks.
    """
    batching = _Batching(batch_size, drop_last, collate_fn)
    shuffle = _Shuffle(seed, shuffle_buffer, shuffle_shards)
    optional(function)("transform", transform)
    wanted = whole("num_workers", num_workers, least=0)
    of_workers = {
        "persistent_workers": flag("persistent_workers", persistent_workers),
        "prefetch_factor": optional(whole)("prefetch_factor", prefetch_factor, least=1),
    }
    options: dict[str, Any] = {"pin_memory": flag("pin_memory", pin_memory)}
    own_world = optional(instance)("world", world, World, "World(rank, world_size)")
    shards = _of_rank(resolve_shards(urls, split=split, snapshot=snapshot), own_world or current_world())
    options["num_workers"] = min(wanted, len(shards))
    if options["num_workers"]:  # DataLoader refuses these without workers
        options |= of_workers | {"multiprocessing_context": _start_method(shards)}
    return WebDatasetLoader(shards, shuffle, batching, transform, options)


class WebDatasetLoader:
    """What `webdataset_loader` returns: an iterable of batches (or samples) with a length.

    Iterating raises `SampleError`, `FormatError` or `IntegrityError` for a sample or shard that is not what it should
    be, with its name, and `FormatError` when no shard holds a sample.

    Attributes:
        shards: what this rank reads.
        epoch: the epoch that the next iteration gives; set it to repeat or to resume at one.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        shuffle: "_Shuffle",
        batching: "_Batching",
        transform: Callable[[Sample], Sample] | None,
        options: Mapping[str, Any],
    ) -> None:
        import torch
        from torch.utils.data import DataLoader

        self.shards = tuple(shards)
        self.epoch = 0
        self._batching = batching
        self._num_workers: int = options["num_workers"]
        # Shared with the workers, which outlive an epoch: how they learn which one begins, and say that samples came.
        shared = torch.zeros(2, dtype=torch.int64)
        shared.share_memory_()  # type: ignore[no-untyped-call]
        self._epochs = _Epochs(shared, shuffle.among(len(self.shards)))
        pipeline = _pipeline(self.shards, self._epochs, batching, transform)
        self._loader: DataLoader[Any] = DataLoader(pipeline, batch_size=None, **options)

    @property
    def num_workers(self) -> int:
        """Worker processes: those asked for, at most one per shard."""
        return self._num_workers

    @property
    def num_samples(self) -> int:
        """Samples of an epoch on this rank.

        Raises:
            TypeError: not known; the message says how to make it known.
        """
        return sum(self._counts())

    def __len__(self) -> int:
        """Batches (or samples) of an epoch on this rank. Raises as `num_samples`."""
        counts, workers = self._counts(), max(1, self._num_workers)
        return sum(self._batching.num_batches(sum(counts[worker::workers])) for worker in range(workers))

    def __iter__(self) -> Iterator[Any]:
        self._epochs.begin(whole("epoch", self.epoch))
        self.epoch += 1
        batches = iter(self._loader)
        try:
            yield from batches
        except Exception:
            _end_workers(self._loader, batches)
            raise
        if self.shards and not self._epochs.has_samples:
            raise FormatError(
                f"no sample in any of {len(self.shards)} shards (the first is {self.shards[0].url}): a sample is "
                "neighbouring files KEY.flac, KEY.json, …; check how they were written"
            )

    def _counts(self) -> list[int]:
        counts = [shard.counted() for shard in self.shards]
        for shard, count in zip(self.shards, counts, strict=True):
            if count is None:  # what has no length raises TypeError in Python; tqdm and list() rely on it
                raise TypeError(
                    f"{shard.url}: how many samples it holds is not known, so this loader has no length; "
                    "`headrace index` writes the sizes.json that says it"
                )
        return cast("list[int]", counts)


def _end_workers(loader: "DataLoader[Any]", batches: Iterator[Any]) -> None:
    """Stop the workers of an iteration that failed, at once.

    Left to the garbage collector, which meets loader and queues in any order, torch waits 5 s for each worker.
    """
    stop = getattr(batches, "_shutdown_workers", None)
    if stop is not None:
        stop()
        loader._iterator = None  # noqa: SLF001 - persistent workers: the next epoch starts new ones


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """How an epoch is mixed; whether shards are shuffled is None until their number is known."""

    seed: int
    buffer: int
    shuffles_shards: bool | None

    def __post_init__(self) -> None:
        convert(self, whole, "seed")
        convert(self, whole, "buffer", called="shuffle_buffer", least=0)
        convert(self, optional(flag), "shuffles_shards", called="shuffle_shards")

    def among(self, num_shards: int) -> "_Shuffle":
        """With shards shuffled, unless said otherwise, where there are many."""
        many = num_shards >= _MANY_SHARDS and self.buffer > 0
        return self if self.shuffles_shards is not None else replace(self, shuffles_shards=many)

    def rng(self, epoch: int, worker: int, purpose: str) -> random.Random:
        """A generator of its own for each use; seeded by a string, which Python hashes alike everywhere."""
        return random.Random(f"{self.seed} {epoch} {worker} {purpose}")  # noqa: S311 - a shuffle, not a secret


@dataclass(frozen=True, slots=True)
class _Epochs:
    """The shuffle, and what is known of the epoch that is read now (in shared memory)."""

    now: "torch.Tensor"  # int64 (2,): its number, and whether there were samples in it
    shuffle: _Shuffle

    def begin(self, epoch: int) -> None:
        self.now[0], self.now[1] = epoch, 0

    def rng(self, worker: int, purpose: str) -> random.Random:
        return self.shuffle.rng(int(self.now[0]), worker, purpose)

    def noting_samples(self, source: Iterator[RawSample]) -> Iterator[RawSample]:
        """The same samples; from the first one on the epoch has some, whatever is dropped of them."""
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
    """How samples become batches."""

    batch_size: int | None
    drops_last: bool
    collate: Callable[[Sequence[Sample]], Any]

    def __post_init__(self) -> None:
        convert(self, optional(whole), "batch_size", least=1)
        convert(self, flag, "drops_last", called="drop_last")
        convert(self, function, "collate", called="collate_fn")

    def num_batches(self, num_samples: int) -> int:
        """Batches that one worker makes of so many samples."""
        if self.batch_size is None:
            return num_samples
        return num_samples // self.batch_size if self.drops_last else -(-num_samples // self.batch_size)


def _of_rank(shards: list[Shard], world: World) -> list[Shard]:
    """Every world_size-th shard."""
    if 0 < len(shards) < world.world_size:
        raise ConfigError(
            f"{len(shards)} shards cannot be divided among {world.world_size} ranks: make smaller shards "
            "(shards.samples_per_shard), or use headrace.StreamingDataset, which divides samples"
        )
    return shards[world.rank :: world.world_size]


def _start_method(shards: Sequence[Shard]) -> str | None:
    """Object-store clients run threads, which do not survive a fork; for local files the platform's default is best."""
    return None if all(isinstance(shard.storage, LocalStorage | None) for shard in shards) else "forkserver"


def _pipeline(
    shards: tuple[Shard, ...], epochs: _Epochs, batching: _Batching, transform: Callable[[Sample], Sample] | None
) -> Any:  # noqa: ANN401 - webdataset has no types; this is a torch IterableDataset
    """The stages: webdataset's own around ours. All of it can be pickled to a worker."""
    import webdataset as wds

    stages = [_ShardsOfWorker(shards, epochs), raw_samples, epochs.noting_samples]
    if epochs.shuffle.buffer > 1:
        stages.append(_ShuffledSamples(epochs))
    stages.append(wds.map(Decoder(transform)))
    if batching.batch_size is not None:
        stages.append(wds.batched(batching.batch_size, collation_fn=batching.collate, partial=not batching.drops_last))
    return wds.DataPipeline(*stages)


@dataclass(frozen=True, slots=True)
class _ShardsOfWorker:
    """The first stage: every num_workers-th shard."""

    shards: tuple[Shard, ...]
    epochs: _Epochs

    def __call__(self) -> Iterator[Shard]:
        worker, num_workers = _worker()
        mine = list(self.shards[worker::num_workers])
        if self.epochs.shuffle.shuffles_shards:
            self.epochs.rng(worker, "shards").shuffle(mine)
        return iter(mine)


@dataclass(frozen=True, slots=True)
class _ShuffledSamples:
    """webdataset's shuffle buffer, filled before the first draw; samples in it are not decoded yet."""

    epochs: _Epochs

    def __call__(self, source: Iterator[RawSample]) -> Iterator[RawSample]:
        import webdataset as wds

        size = self.epochs.shuffle.buffer
        rng = self.epochs.rng(_worker()[0], "samples")
        yield from wds.shuffle(size, initial=size, rng=rng)(source)


def _worker() -> tuple[int, int]:
    """Number of this worker, and of how many."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
