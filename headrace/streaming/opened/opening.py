"""Opens the streams of a dataset, each at one snapshot, with the settings of the stream or of the dataset.

`OpenStreams` also agrees on snapshots with other ranks, and holds the `StreamReaders` of this process. `planner`
decides how much an epoch takes of each stream.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from headrace.arguments import convert, optional, path, position
from headrace.errors import ConfigError
from headrace.format.tars.name_lists import absolute
from headrace.locate.names import is_folder_name
from headrace.locate.outputs import AUDIO
from headrace.stores.requests import StoreRequests
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer
from headrace.streaming import distributed
from headrace.streaming.opened.agreement import open_all, open_for_state
from headrace.streaming.opened.field_names import check_names, check_wanted_fields
from headrace.streaming.opened.reading import StreamReaders, StreamShards, default_cache_folder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.state import OrderState, StreamState, ViewState
from headrace.streaming.output_fields import OutputField
from headrace.streaming.rasters import Raster, check_rasters
from headrace.streaming.samples.stored_sample import BatchRow
from headrace.streaming.selection import Pins, Selection
from headrace.streaming.settings import FetchSettings, SampleSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.remote import OpenedRemote, StreamRequest
from headrace.streaming.shards.shard_set import SnapshotShards
from headrace.streaming.shards.view_shards import ViewShards
from headrace.streaming.shards.window_shards import WindowShards
from headrace.streaming.stats import Traffic
from headrace.streaming.stream import Stream
from headrace.streaming.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamDefaults:
    """Settings of a dataset for streams that do not have their own.

    Attributes:
        local: folder of the cache; None takes one below the temporary folder.
        selection: what is read of each stream.
        fetch: how shards are fetched.
        samples: how samples are cropped.
    """

    local: str | None
    selection: Selection
    fetch: FetchSettings
    samples: SampleSettings = SampleSettings()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        convert(self, optional(path), "local")


class OpenStreams:
    """The opened streams of a dataset. It is pickled without open files; each process opens its own."""

    def __init__(
        self,
        streams: Sequence[Stream],
        names: Sequence[str],
        defaults: StreamDefaults,
        *,
        has_own_world: bool,
        saved: Sequence[StreamState] = (),
    ) -> None:
        """Open the streams; if torch.distributed is up, at the snapshots that rank 0 finds.

        Args:
            streams: the streams to read.
            names: their names in saved states.
            defaults: settings of the dataset.
            has_own_world: whether the user passed `world`; then ranks cannot communicate.
            saved: these streams in a state, to open its snapshots; empty for the newest.

        Raises:
            ConfigError: there is no data set at a remote, or the latents of the streams differ.
            NotFoundError: no such snapshot.
            StateError: a snapshot of `saved` is gone, or not of its data set.
        """
        self.names = tuple(names)
        self._streams = tuple(map(_rooted, streams))
        self._defaults = replace(defaults, local=defaults.local and absolute(defaults.local))
        self._has_agreed = distributed.is_up() or has_own_world
        self._traffic = Traffic(StoreRequests())
        self._requests = [self._request_of(stream) for stream in self._streams]
        self._opened = open_all(self._requests, saved, agree=not has_own_world)
        self._kept_reading: StreamReaders | None = None
        for opened in self._opened:
            check_names(opened)
            if opened.fields is not None and len(opened.primary):
                check_wanted_fields(opened)
        tensors = {name: o.tensors for name, o in zip(names, self._opened, strict=True)}
        if len(set(tensors.values())) > 1:
            raise ConfigError(f"tensors: the streams have columns of other types; {_types(tensors)}")
        if len({opened.labels for opened in self._opened}) > 1:
            raise ConfigError(
                "tensors: the streams number labels differently; pass the labels, tensors={'species': ['crow', 'owl']}"
            )
        check_rasters([opened.rasters for opened in self._opened])
        if len({opened.outputs_that_are_read for opened in self._opened}) > 1:
            found = "; ".join(
                f"{name}: {', '.join(request.selection.latents) or 'none'}"
                for name, request in zip(names, self._requests, strict=True)
            )
            raise ConfigError(
                f"streams of one dataset join latents of the same names in the same order; these differ ({found}): "
                "give each stream the same latents"
            )

    @property
    def outputs(self) -> tuple[OutputField, ...]:
        """The fields of the latents that are read: of the sample's own, then of those that are joined to it."""
        return self._opened[0].outputs_that_are_read

    @property
    def has_metadata(self) -> bool:
        """Whether the samples of some stream have metadata."""
        return any(opened.has_metadata for opened in self._opened)

    @property
    def rasters(self) -> tuple[tuple[str, Raster], ...]:
        """Names of fields, and the grids of events that they are; columns are those of the first stream."""
        return self._opened[0].rasters

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Labels of each column of text that comes as a tensor; the streams have the same."""
        return dict(self._opened[0].labels)

    @property
    def has_windows(self) -> bool:
        """Whether the samples of some stream are cut into windows."""
        return any(opened.primary.identity.windows is not None for opened in self._opened)

    @property
    def num_samples(self) -> int:
        """Samples of all streams, each counted once."""
        return sum(opened.primary.num_samples for opened in self._opened)

    @property
    def num_shards(self) -> int:
        """Shards of all streams, without those of joined latents."""
        return sum(len(opened.primary) for opened in self._opened)

    @property
    def reading(self) -> StreamReaders:
        """The streams as this process reads them."""
        if self._kept_reading is None or self._kept_reading.pid != os.getpid():
            self._kept_reading = StreamReaders(self._sources(), self._traffic)
        return self._kept_reading

    def check_time_axes(self) -> None:
        """Raise `ConfigError` if samples are cut in a folder that has no time axis, with latents that have one."""
        for opened in self._opened:
            own = opened.primary.shards
            own = own.whole if isinstance(own, WindowShards) else own
            whole = own.whole if isinstance(own, ViewShards) else own
            cuts_latents = opened.is_latents and opened.joined
            if isinstance(whole, SnapshotShards) and cuts_latents and not whole.has_time_axis:
                raise ConfigError(
                    f"{opened.primary.storage.uri}: no sample has more than one frame, so a crop has nothing to cut "
                    "there: name the latents with a time axis as remote, and join this folder to them"
                )

    def close_idle(self) -> None:
        """Close the files that this process keeps for later."""
        if self._kept_reading is not None and self._kept_reading.pid == os.getpid():
            self._kept_reading.close_idle()

    def mixture(self, epoch_size: int | str | None) -> Mixture:
        """The streams with their weights, for the order."""
        specs = [
            StreamSpec(
                name, o.primary.shards.num_samples, stream.proportion, stream.repeat, stream.choose, stream.batch_size
            )
            for name, stream, o in zip(self.names, self._streams, self._opened, strict=True)
        ]  # fmt: skip
        return Mixture(tuple(specs), epoch_size)

    def states(self) -> list[StreamState]:
        """The streams for a saved state."""
        found = zip(self.names, self._streams, self._opened, strict=True)
        return [_state_of(name, opened, _place(stream, opened)) for name, stream, opened in found]

    @contextlib.contextmanager
    def reopened(self, state: OrderState) -> Iterator[None]:
        """Open the snapshots that a state was saved on; if the block fails, return to those before.

        Raises:
            StateError: a snapshot is gone.
        """
        before = self._opened, self._kept_reading
        self._opened = open_for_state(self._requests, self.names, self._opened, state)
        self._kept_reading = None
        try:
            yield
        except BaseException:
            self._opened, self._kept_reading = before
            raise
        if before[1] is not None and before[1].pid == os.getpid():
            before[1].close_idle()

    def agree(self, world: World, waiting: OrderState | None) -> bool:
        """Agree on snapshots with the other ranks if torch.distributed started after opening. Returns whether it did.

        Args:
            world: rank and world size with which the dataset was made.
            waiting: loaded state, whose snapshots are then opened.

        Raises:
            ConfigError: the rank or world size was another one when the dataset was made.
        """
        if self._has_agreed or not distributed.is_up():
            return False
        found = distributed.current_world()
        if found != world:
            raise ConfigError(
                f"the dataset was made as {world}, but torch.distributed now says {found}: make the dataset after "
                "init_process_group (under Lightning: in train_dataloader), or pass world=World(rank, world_size)"
            )
        self._opened, self._kept_reading, self._has_agreed = open_all(self._requests), None, True
        if waiting is not None:
            with self.reopened(waiting):
                pass
        return True

    def row(self, number: int) -> BatchRow:
        """A sample by its number over all streams in storage order; of a remote shard, only its bytes are fetched.

        Args:
            number: from 0 to `num_samples` - 1; negative numbers count from the end.

        Raises:
            IndexError: there is no such sample.
            TypeError: `number` is not a whole number.
        """
        number = position("sample", number)
        sample = left = number + self.num_samples if number < 0 else number
        if not 0 <= sample < self.num_samples:
            raise IndexError(f"sample {number}: there are {self.num_samples}, from 0 to {self.num_samples - 1}")
        for reader, opened in zip(self.reading.readers, self._opened, strict=True):
            if left < opened.primary.num_samples:
                return reader.rows(np.array([left]), [sample], patient=False)[0]
            left -= opened.primary.num_samples
        raise AssertionError

    def shard(self, number: int) -> tuple[ShardAccess, int]:
        """The access to a shard by its number over all streams, and the number of the shard in its stream.

        Raises:
            IndexError: there is no such shard.
            TypeError: `number` is not a whole number.
        """
        left = position("shard", number)
        for reader in self.reading.readers:
            if 0 <= left < len(reader.primary.shards):
                return reader.primary, left
            left -= len(reader.primary.shards)
        raise IndexError(f"shard {number}: there are {self.num_shards}")

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without open files, locks and clients."""
        return self.__dict__ | {"_kept_reading": None}

    def _request_of(self, stream: Stream) -> StreamRequest:
        cache = self._cache_folder(stream)
        transfer = self._transfer_of(self._fetch_of(stream))
        selection = rooted(stream.selection(self._defaults.selection))
        return StreamRequest(stream.place, selection, Pins(), cache / "indexes", cache, transfer)

    def _transfer_of(self, fetch: FetchSettings) -> Transfer:
        return Transfer(fetch.download_timeout_seconds, RetryPolicy(fetch.download_retry), self._traffic.requests)

    def _cache_folder(self, stream: Stream) -> Path:
        folder = stream.cache or self._defaults.local
        return Path(folder) if folder is not None else default_cache_folder()

    def _sources(self) -> list[StreamShards]:
        pairs = zip(self._streams, self._opened, strict=True)
        samples = self._defaults.samples
        return [StreamShards(o, self._cache_folder(stream), self._fetch_of(stream), samples) for stream, o in pairs]

    def _fetch_of(self, stream: Stream) -> FetchSettings:
        fetch = self._defaults.fetch
        return replace(
            fetch,
            download_retry=_or(stream.download_retry, fetch.download_retry),
            download_timeout_seconds=_or(stream.download_timeout, fetch.download_timeout_seconds),
            validate_hash=cast("bool", _or(stream.validate_hash, fetch.validate_hash)),  # FetchSettings converts it
            keep_zip=_or(stream.keep_zip, fetch.keep_zip),
        )


def rooted(selection: Selection) -> Selection:
    """A selection with absolute folders, since the process may change its folder before it reads or starts workers."""
    view = None if selection.view is None else _rooted_part(selection.view)
    latents, columns = (tuple(map(_rooted_part, names)) for names in (selection.latents, selection.columns))
    return replace(selection, view=view, latents=latents, columns=columns)


def _rooted(stream: Stream) -> Stream:
    """A stream with absolute places, likewise."""
    return replace(
        stream,
        remote=None if stream.remote is None else absolute(stream.place),
        local=stream.local and absolute(stream.local),
    )


def _rooted_part(name: str) -> str:
    return absolute(name) if is_folder_name(name) else name


def _types(tensors: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """The types of the tensors of each stream, for messages."""
    return "; ".join(f"{name}: {', '.join(f'{n} {dtype}' for n, dtype in found)}" for name, found in tensors.items())


def _place(stream: Stream, opened: OpenedRemote) -> str | None:
    """The place of a stream in a saved state: the same for an output and for the folder in it that this means."""
    place, folder = stream.public_place, opened.primary.storage.uri.rstrip("/")
    return folder if place is not None and folder == f"{place.rstrip('/')}/{AUDIO}" else place


def _state_of(name: str, opened: OpenedRemote, remote: str | None) -> StreamState:
    data, pins = opened.primary.identity, opened.pins
    view = data.view
    return StreamState(
        name,
        data.split,
        data.snapshot,
        data.fingerprint,
        latents_snapshots=pins.of_latents,
        latents_fingerprints=opened.latents_fingerprints,
        key_at=data.key_at,
        view=None if view is None else ViewState(view.definition, view.snapshot, view.columns),
        windows=data.windows,
        columns_snapshots=tuple(pins.of_columns.items()),
        revision=pins.revision,
        remote=remote,
    )


def _or(own: T | None, common: T) -> T:
    """The value of a stream, or else that of the dataset."""
    return common if own is None else own
