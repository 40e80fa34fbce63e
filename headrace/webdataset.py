"""The plain WebDataset pipeline over the shards of Headrace or of anybody else, done right.

Owns `webdataset_loader`: resolving names before webdataset sees them, dividing shards among ranks and workers, the two
shuffles, decoding, batches and a length. What it gives is approximate where webdataset is: the order depends on ranks
and workers, and ranks may get unequal numbers of batches. `headrace.StreamingDataset` has neither limit.
"""

import contextlib
import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import zstandard

from headrace.audio import decode
from headrace.errors import ConfigError, FormatError, HeadraceError, IntegrityError, SampleError
from headrace.indexing import LATENT_FIELD, audio_field
from headrace.pth import unpickled
from headrace.shardlists import Shard, Urls, resolve_shards
from headrace.storage import LocalStorage
from headrace.streaming.batches.batch import Sample, collate
from headrace.streaming.distributed import current_world
from headrace.streaming.world import World

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

_MANY_SHARDS = 100  # of fewer, an order by shard says little; the sample buffer mixes as well

RawSample = dict[str, Any]
"""What webdataset's grouping gives: `__key__`, `__url__` and the bytes of each field."""


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
        ConfigError: there is no such split, or there are fewer shards than ranks.
    """
    if batch_size is not None and batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}: expected at least 1, or None for single samples")
    shards = _of_rank(resolve_shards(urls, split=split, snapshot=snapshot), world or current_world())
    workers = min(num_workers, len(shards))
    many = len(shards) >= _MANY_SHARDS and shuffle_buffer > 0
    shuffle = _Shuffle(seed, shuffle_buffer, many if shuffle_shards is None else shuffle_shards)
    batching = _Batching(batch_size, drop_last, collate_fn)
    options: dict[str, Any] = {"num_workers": workers, "pin_memory": pin_memory}
    if workers:  # DataLoader refuses these without workers
        options["persistent_workers"] = persistent_workers
        options["multiprocessing_context"] = _start_method(shards)
        if prefetch_factor is not None:
            options["prefetch_factor"] = prefetch_factor
    return WebDatasetLoader(shards, shuffle, batching, transform, options)


class WebDatasetLoader:
    """What `webdataset_loader` returns: an iterable of batches (or samples) with a length.

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
        # Shared with the workers, which outlive an epoch: how they learn which one begins.
        self._shared_epoch = torch.zeros(1, dtype=torch.int64)
        self._shared_epoch.share_memory_()  # type: ignore[no-untyped-call]
        pipeline = _pipeline(self.shards, _Epochs(self._shared_epoch, shuffle), batching, transform)
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
        self._shared_epoch[0] = self.epoch
        self.epoch += 1
        batches = iter(self._loader)
        try:
            yield from batches
        except Exception:
            _end_workers(self._loader, batches)
            raise

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
    """How an epoch is mixed."""

    seed: int
    buffer: int
    shuffles_shards: bool

    def rng(self, epoch: int, worker: int, purpose: str) -> random.Random:
        """A generator of its own for each use; seeded by a string, which Python hashes alike everywhere."""
        return random.Random(f"{self.seed} {epoch} {worker} {purpose}")  # noqa: S311 - a shuffle, not a secret


@dataclass(frozen=True, slots=True)
class _Epochs:
    """The shuffle, and the epoch that is read now (int64 (1,), in shared memory)."""

    now: "torch.Tensor"
    shuffle: _Shuffle

    def rng(self, worker: int, purpose: str) -> random.Random:
        return self.shuffle.rng(int(self.now[0]), worker, purpose)


@dataclass(frozen=True, slots=True)
class _Batching:
    """How samples become batches."""

    batch_size: int | None
    drops_last: bool
    collate: Callable[[Sequence[Sample]], Any]

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

    stages = [_ShardsOfWorker(shards, epochs), _raw_samples]
    if epochs.shuffle.buffer > 1:
        stages.append(_ShuffledSamples(epochs))
    stages.append(wds.map(_Decoder(transform)))
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


def _raw_samples(shards: Iterator[Shard]) -> Iterator[RawSample]:
    """The samples of these shards, by webdataset's rules, each shard checked as it ends."""
    for shard in shards:
        try:
            yield from _samples_of(shard)
        except HeadraceError:
            raise
        except Exception as error:  # webdataset and tarfile raise many kinds; a consumer needs one, with the shard
            raise FormatError(
                f"{shard.url}: cannot be read as a WebDataset: {error.args[0] if error.args else error}"
            ) from error


def _samples_of(shard: Shard) -> Iterator[RawSample]:
    """The samples of one shard.

    Raises:
        FormatError: the files of a sample are not neighbours, or names have dots too many.
        IntegrityError: there are fewer or more than `sizes.json` says.
    """
    from webdataset.tariterators import group_by_keys, tar_file_expander

    seen: set[str] = set()
    with _opened(shard) as stream:
        for sample in group_by_keys(tar_file_expander([{"url": shard.url, "stream": stream}])):
            _check_names(sample, seen)
            seen.add(sample["__key__"])
            yield sample
    if shard.num_samples is not None and len(seen) != shard.num_samples:
        raise IntegrityError(
            f"{shard.url}: {len(seen)} samples came, sizes.json says {shard.num_samples}: fetch or build it again, or "
            "run `headrace index` if it was changed on purpose"
        )


@contextlib.contextmanager
def _opened(shard: Shard) -> Iterator[BinaryIO]:
    """The shard's bytes, unpacked: tarfile would read only the first of several compressed members."""
    if shard.storage is None:
        import webdataset as wds

        with wds.gopen(shard.name) as stream:
            yield stream
        return
    with shard.storage.open(shard.name) as file:
        if shard.name.endswith((".zst", ".zstd")):
            yield cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        elif shard.name.endswith((".gz", ".tgz")):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file))
        else:
            yield file


def _check_names(sample: RawSample, seen: set[str]) -> None:
    """Refuse what webdataset would split or merge without a word."""
    key, url = sample["__key__"], sample["__url__"]
    fields = [name for name in sample if not name.startswith("__")]
    if key in seen:
        raise FormatError(f"{url}: the files of sample {key!r} are not neighbours; write the shard again, sorted")
    if fields and all("." in name for name in fields):
        raise FormatError(
            f"{url}: {key}.{fields[0]} has a dot too many: the key ends at the first dot, so this is field "
            f"{fields[0]!r} of sample {key!r}; write the shard again with underscores in its keys"
        )


@dataclass(frozen=True, slots=True)
class _Decoder:
    """From the bytes of a sample's fields to what users see."""

    transform: Callable[[Sample], Sample] | None

    def __call__(self, raw: RawSample) -> Sample:
        """The decoded sample.

        Raises:
            SampleError: a field cannot be decoded; names shard, key and reason.
        """
        try:
            sample = decode_sample(raw)
        except Exception as error:  # decoders raise many kinds; a consumer needs one, with shard and key
            raise SampleError(f"{raw['__url__']}: sample {raw['__key__']!r}: {error}") from error
        return sample if self.transform is None else self.transform(sample)


def decode_sample(raw: Mapping[str, Any]) -> Sample:
    """What `webdataset_loader` makes of one sample; for pipelines of your own: `wds.WebDataset(…).map(decode_sample)`.

    Args:
        raw: `__key__`, and bytes by field name.

    Raises:
        AudioError: the audio cannot be decoded.
        ValueError: the JSON is none.
        FormatError: a `.pth` that is damaged, or more than tensors and plain values.
    """
    import torch

    sample: Sample = {"__key__": raw["__key__"]}
    fields = {name: blob for name, blob in raw.items() if not name.startswith("__")}
    if (name := audio_field(tuple(fields))) is not None:
        audio, sample["sample_rate"] = decode(fields.pop(name))
        sample["audio"] = torch.from_numpy(audio)
    if LATENT_FIELD in fields:
        stored = unpickled(fields.pop(LATENT_FIELD))
        sample |= stored if isinstance(stored, dict) else {LATENT_FIELD: stored}
    metadata = json.loads(fields.pop("json", b"{}"))
    sample["metadata"] = metadata if isinstance(metadata, dict) else {"json": metadata}
    return sample | fields
