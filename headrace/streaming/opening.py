"""The streams of a dataset: as the user named them, opened at one snapshot each, and as this process reads them.

Owns the step from `Stream`s to shards: which settings hold for each, agreement among ranks, and the one `Reading` of
this process. What an epoch takes of them is `planner`'s.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from headrace.errors import ConfigError
from headrace.storage import Transfer
from headrace.streaming import distributed
from headrace.streaming.agreement import open_all, open_for_state
from headrace.streaming.batches.rows import Row
from headrace.streaming.checks import convert, optional, path, position, text
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.reading import Reading, Source, default_cache_folder
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.finding import absolute
from headrace.streaming.shards.remote import OpenedRemote, Wanted
from headrace.streaming.state import OrderState, StreamState
from headrace.streaming.stream import Stream
from headrace.streaming.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamDefaults:
    """What a stream takes from its dataset where it says nothing itself.

    Attributes:
        local: folder of the cache; None takes one below the temporary folder.
        split: None for all.
        fetch: how shards are fetched.
    """

    local: str | None
    split: str | None
    fetch: FetchConfig

    def __post_init__(self) -> None:
        convert(self, optional(path), "local")
        convert(self, optional(text), "split")


class OpenStreams:
    """The opened streams of a dataset. It travels to workers without open files; each process reads for itself."""

    def __init__(
        self, streams: Sequence[Stream], names: Sequence[str], defaults: StreamDefaults, *, has_own_world: bool
    ) -> None:
        """Open the streams; where torch.distributed is up, at the snapshots that rank 0 finds.

        Args:
            streams: what to read.
            names: what saved states know them by.
            defaults: the dataset's settings.
            has_own_world: the user says which rank this is, so ranks cannot ask each other.

        Raises:
            ConfigError: a remote is none, or the streams' latents differ.
            NotFoundError: no such snapshot.
        """
        self.names = tuple(names)
        self._streams = tuple(map(_rooted, streams))
        self._defaults = replace(defaults, local=defaults.local and absolute(defaults.local))
        self._has_agreed = distributed.is_up() or has_own_world
        self._wanted = [self._wanted_of(stream) for stream in self._streams]
        self._opened = open_all(self._wanted, self._fetches(), agree=not has_own_world)
        self._kept_reading: Reading | None = None
        if len({opened.suffixes for opened in self._opened}) > 1:
            raise ConfigError("streams of one dataset join latents of the same names, in the same order, or none")

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What is added to `encoder_hidden` for a sample and for each of its joined latents."""
        return self._opened[0].suffixes

    @property
    def num_samples(self) -> int:
        """Samples of all streams, each counted once."""
        return sum(opened.primary.num_samples for opened in self._opened)

    @property
    def num_shards(self) -> int:
        """Shards of all streams, joined latents not counted."""
        return sum(len(opened.primary) for opened in self._opened)

    @property
    def reading(self) -> Reading:
        """The streams as this process reads them."""
        if self._kept_reading is None or self._kept_reading.pid != os.getpid():
            self._kept_reading = Reading(self._sources())
        return self._kept_reading

    def mixture(self, epoch_size: int | str | None) -> Mixture:
        """The streams as the order sees them."""
        specs = [
            StreamSpec(
                name, o.primary.shards.num_samples, stream.proportion, stream.repeat, stream.choose, stream.batch_size
            )
            for name, stream, o in zip(self.names, self._streams, self._opened, strict=True)
        ]  # fmt: skip
        return Mixture(tuple(specs), epoch_size)

    def states(self) -> list[StreamState]:
        """What a saved state says of the streams."""
        return [_state_of(name, opened) for name, opened in zip(self.names, self._opened, strict=True)]

    @contextlib.contextmanager
    def reopened(self, state: OrderState) -> Iterator[None]:
        """Go to the snapshots that a state was saved on, and back again if the block fails.

        Raises:
            StateError: one is gone.
        """
        before = self._opened, self._kept_reading
        self._opened = open_for_state(self._wanted, self.names, self._opened, state, self._fetches())
        self._kept_reading = None
        try:
            yield
        except BaseException:
            self._opened, self._kept_reading = before
            raise

    def agree(self, world: World, waiting: OrderState | None) -> None:
        """Agree with the other ranks if torch.distributed came up after opening; at a waiting state's snapshots.

        Raises:
            ConfigError: this rank is not who it was taken for.
        """
        if self._has_agreed or not distributed.is_up():
            return
        found = distributed.current_world()
        if found != world:
            raise ConfigError(
                f"the dataset was made as {world}, but torch.distributed now says {found}: make the dataset after "
                "init_process_group (under Lightning: in train_dataloader), or pass world=World(rank, world_size)"
            )
        self._opened, self._kept_reading, self._has_agreed = open_all(self._wanted, self._fetches()), None, True
        if waiting is not None:
            with self.reopened(waiting):
                pass

    def row(self, number: int) -> Row:
        """A sample by its number over all streams in storage order; its bytes alone if its shard is not here.

        Args:
            number: from 0 to `num_samples`; negative numbers count from the end.

        Raises:
            IndexError: there is no such sample.
            TypeError: `number` is no whole number.
        """
        number = position("sample", number)
        sample = left = number + self.num_samples if number < 0 else number
        if not 0 <= sample < self.num_samples:
            raise IndexError(f"sample {number} of {self.num_samples}")
        for reader, opened in zip(self.reading.readers, self._opened, strict=True):
            if left < opened.primary.num_samples:
                return reader.rows(np.array([left]), [sample], patient=False)[0]
            left -= opened.primary.num_samples
        raise AssertionError

    def shard(self, number: int) -> tuple[ShardAccess, int]:
        """The shard of a number over all streams: who reads it, and its number there.

        Raises:
            IndexError: there is no such shard.
            TypeError: `number` is no whole number.
        """
        left = position("shard", number)
        for reader in self.reading.readers:
            if 0 <= left < len(reader.primary.shards):
                return reader.primary, left
            left -= len(reader.primary.shards)
        raise IndexError(f"shard {number}: there are {self.num_shards}")

    def __getstate__(self) -> dict[str, Any]:
        """Travel without open files, locks and clients."""
        return self.__dict__ | {"_kept_reading": None}

    def _wanted_of(self, stream: Stream) -> Wanted:
        return Wanted(
            remote=stream.place,
            latents=tuple(stream.latents),
            split=stream.split or self._defaults.split,
            snapshot=stream.snapshot,
            index_folder=self._cache_folder(stream) / "indexes",
            transfer=Transfer(self._fetch_of(stream).download_timeout_seconds),
        )

    def _cache_folder(self, stream: Stream) -> Path:
        folder = stream.cache or self._defaults.local
        return Path(folder) if folder is not None else default_cache_folder()

    def _sources(self) -> list[Source]:
        pairs = zip(self._streams, self._opened, strict=True)
        return [Source(opened, self._cache_folder(stream), self._fetch_of(stream)) for stream, opened in pairs]

    def _fetches(self) -> list[FetchConfig]:
        return list(map(self._fetch_of, self._streams))

    def _fetch_of(self, stream: Stream) -> FetchConfig:
        fetch = self._defaults.fetch
        return replace(
            fetch,
            download_retry=_or(stream.download_retry, fetch.download_retry),
            download_timeout_seconds=_or(stream.download_timeout, fetch.download_timeout_seconds),
            validate_hash=bool(_or(stream.validate_hash, fetch.validate_hash)),
            keep_zip=_or(stream.keep_zip, fetch.keep_zip),
        )


def _rooted(stream: Stream) -> Stream:
    """The stream by absolute names: the process may change its folder before it reads, and before workers start."""
    return replace(
        stream,
        remote=stream.remote and absolute(stream.remote),
        local=stream.local and absolute(stream.local),
        latents=tuple(map(absolute, stream.latents)),
    )


def _state_of(name: str, opened: OpenedRemote) -> StreamState:
    data = opened.identity
    return StreamState(name, data.split, data.snapshot, data.fingerprint, latents_snapshots=opened.latents_snapshots)


def _or(own: T | None, common: T) -> T:
    """A stream's own value, or that of the dataset."""
    return common if own is None else own
