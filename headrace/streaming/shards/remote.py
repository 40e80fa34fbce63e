"""Opens the shards of a stream at one snapshot, with its view, and the latents and columns joined to it.

`headrace.locate` finds what `remote` leads to. A shard folder is opened at its newest snapshot or a given one, audio
with latents and a view at the newest snapshot that all of them have, and a plain WebDataset by `foreign`. Listings,
snapshots and totals are read, never a shard of Headrace.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import ConfigError, NoShardsError
from headrace.format.beside.column_files import SPECS_KEY
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import VIEWS, NumberedView
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import NumberedSnapshot, snapshot_numbers
from headrace.format.tars.member_names import KeyAt
from headrace.locate import locate
from headrace.locate.no_shards import parts_beside
from headrace.locate.outputs import ITSELF, LATENTS, ShardFolder, output_of, place_of
from headrace.stores.requests import StoreRequests
from headrace.stores.storage import Storage, Transfer, open_storage, pinned, revision_of
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.rasters import Raster
from headrace.streaming.selection import Pins, Selection
from headrace.streaming.settings import FetchSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.foreign import IndexKeeper, open_foreign
from headrace.streaming.shards.joined_columns import (
    ColumnSet,
    JoinedSources,
    check_json,
    companions,
    lacking_tensors,
    metadata_companion,
    planned_sets,
)
from headrace.streaming.shards.matching import (
    Companion,
    Offering,
    audio_of,
    fitting_snapshots,
    newest_with_all,
)
from headrace.streaming.shards.shard_set import DataIdentity, ShardSet, SnapshotShards, snapshot_shards
from headrace.streaming.shards.view_shards import shards_of_view
from headrace.streaming.shards.where import WhereCondition, columns_of
from headrace.streaming.shards.window_shards import in_windows
from headrace.streaming.stats import Traffic
from headrace.views.names import NoColumnError


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """Data that a stream asks to open.

    Attributes:
        remote: a name that `headrace.locate.locate` takes.
        selection: what is read of it.
        pins: snapshots that are decided.
        index_folder: folder in which indexes of plain tars are kept; None keeps them in memory.
        cache_folder: folder in which the result of `where` is kept.
        transfer: time limits of stores.
    """

    remote: str
    selection: Selection = field(default_factory=Selection)
    pins: Pins = field(default_factory=Pins)
    index_folder: Path | None = None
    cache_folder: Path = Path()
    transfer: Transfer | None = None

    @property
    def number(self) -> int | None:
        """Number of the snapshot of its own folder; None for the newest."""
        return self.selection.snapshot if self.pins.own is None else self.pins.own


@dataclass(frozen=True, slots=True)
class OpenedRemote:
    """The shards of a stream, and of the latents joined to it.

    Attributes:
        primary: the shards whose samples are ordered.
        joined: the shards of each folder of latents.
        suffixes: added to the field name `encoder_hidden`, for the primary shards and then for each folder of latents.
        columns: the sets of columns that are joined to the samples.
        fields: the fields of samples that are read; None for all.
        rasters: names of fields, and the grids of events that they are.
    """

    primary: ShardSet
    joined: tuple[ShardSet, ...] = ()
    suffixes: tuple[str, ...] = ("",)
    columns: tuple[ColumnSet, ...] = ()
    fields: frozenset[str] | None = None
    rasters: tuple[tuple[str, Raster], ...] = ()

    @property
    def latents_that_are_read(self) -> list[tuple[ShardSet, str]]:
        """The shards of the joined latents that are wanted, and the suffix of each."""
        pairs = list(zip(self.joined, self.suffixes[1:], strict=True))
        return [pair for pair in pairs if self.fields is None or f"encoder_hidden{pair[1]}" in self.fields]

    @property
    def suffixes_that_are_read(self) -> tuple[str, ...]:
        """The suffixes of the primary shards and of the joined latents that are wanted."""
        return (self.suffixes[0], *(suffix for _, suffix in self.latents_that_are_read))

    @property
    def has_metadata(self) -> bool:
        """Whether the samples have metadata: their JSON, or columns."""
        is_wanted = self.fields is None or "metadata" in self.fields
        return is_wanted or any(one.joined for one in self.columns)

    @property
    def tensors(self) -> tuple[tuple[str, str], ...]:
        """Name and dtype of each column that comes as a tensor, by name."""
        return tuple(sorted((tensor.spec.name, tensor.dtype) for one in self.columns for tensor in one.tensors))

    @property
    def pins(self) -> Pins:
        """Numbers of the snapshots that are open."""
        view = self.primary.identity.view
        return Pins(
            self.identity.snapshot,
            tuple(joined.identity.snapshot or 0 for joined in self.joined),  # never 0: latents have snapshots
            None if view is None else view.snapshot,
            () if view is None else view.columns,
            {one.name: one.identity.snapshot or 0 for one in self.columns},  # never 0, as above
            revision_of(self.primary.storage),
        )

    @property
    def identity(self) -> DataIdentity:
        """Identity of the data in a saved state; with latents, the fingerprint covers all of them."""
        own = self.primary.identity
        if not self.joined:
            return own
        together = " ".join([own.fingerprint, *(joined.identity.fingerprint for joined in self.joined)])
        return replace(own, fingerprint=hashlib.sha256(together.encode()).hexdigest())


def open_remote(request: StreamRequest) -> OpenedRemote:
    """Open a stream's shards, for reading some or all of their fields; see `_opened`."""
    fields = request.selection.fields
    request = replace(request, remote=pinned(request.remote, request.transfer, request.pins.revision))
    wanted = None if fields is None else frozenset(fields)
    opened = replace(_opened(request), fields=wanted, rasters=request.selection.rasters)
    return opened if request.selection.windows is None else _in_windows(opened, request)


def _in_windows(opened: OpenedRemote, request: StreamRequest) -> OpenedRemote:
    """The stream with windows as its samples; reads all indexes, unless their windows were counted before."""
    assert request.selection.windows is not None
    cache = ShardCache(request.cache_folder, None)
    access = ShardAccess(opened.primary, FetchSettings(), cache, Traffic(StoreRequests()))
    primary = in_windows(opened.primary, access.index, request.selection.windows, request.cache_folder)
    return replace(opened, primary=primary)


def _opened(request: StreamRequest) -> OpenedRemote:
    """Open a stream's shards.

    Raises:
        ConfigError: there is no such split, latents are joined to a plain WebDataset, a folder is on a web server that
            lists nothing, or `key_at` is given for an output of Headrace, whose keys are known.
        NotFoundError: nothing is there, or no such snapshot, or no audio snapshot that all latents have.
    """
    selection = request.selection
    located = locate(request.remote, split=selection.split, snapshot=request.number, transfer=request.transfer)
    wanted = selection.needs_snapshots
    if located.tars is not None and wanted is None:
        keeper = IndexKeeper(request.index_folder, selection.key_at)
        return OpenedRemote(open_foreign(located.named, selection.split, located.tars, keeper))
    folder = located.one_folder(wanted or "reading")
    if selection.key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(
            f"key_at={selection.key_at.value!r} is for plain tars, and {request.remote} is an output of Headrace, "
            "which knows its keys: leave it out here, and give it to the Stream that needs it"
        )
    if wanted is not None:
        return _open_joined(folder, request)
    return OpenedRemote(_open_snapshot(folder.storage, folder.snapshot(request.number), selection.split))


def _open_snapshot(storage: Storage, found: NumberedSnapshot, split: str | None) -> ShardSet:
    if SPECS_KEY in found.snapshot.origin:
        raise ConfigError(
            f"{storage.uri}: a set of columns, which has no samples of its own: name the audio or the latents as "
            "remote, and this folder in columns=[…]"
        )
    shards, identity = snapshot_shards(storage, found, split)
    return ShardSet(storage, shards, identity, read_index, is_named_by_content=True)


def _open_joined(folder: ShardFolder, request: StreamRequest) -> OpenedRemote:
    """A folder at the newest snapshot that all companions belong to, each at its newest for that snapshot."""
    storage, asked, split = folder.storage, request.selection, request.selection.split
    sources = JoinedSources(output_of(request.remote, folder), request.transfer, request.pins.of_columns)
    folders = _latent_folders(request, sources.output)
    latents = [Companion(name, LATENTS, one) for name, one in zip(asked.latents, folders, strict=True)]
    view = None if asked.view is None else open_view(sources.output, asked.view, request)
    sets = companions(asked.columns, sources)
    others: list[Offering] = [*latents, *([] if view is None else [view])]
    own, audio = newest_with_all(folder, request.remote, request.number, [*others, *sets])
    if lacking_tensors(asked, [one.offers[audio] for one in sets]) and (metadata := metadata_companion(sources)):
        sets = [*sets, metadata]
        own, audio = newest_with_all(folder, request.remote, request.number, [*others, *sets])
    primary = _open_snapshot(storage, own, split)
    if asked.where is not None:
        fitting = fitting_snapshots(folder, request.number, [*others, *sets])
        own, primary = _first_evaluated(folder, fitting, request)
        audio = audio_of(own.snapshot)
    joined = tuple(
        _open_snapshot(one.folder.storage, one.offers[audio], _split_of(one.offers[audio], split)) for one in latents
    )
    columns = planned_sets(asked, [(one, one.offers[audio]) for one in sets], sources.output)
    if asked.keeps_json and not all(one.only_fills for one in columns):
        table = metadata_companion(replace(sources, pins={}))
        check_json(columns, primary, None if table is None else table.offers.get(audio))
    if view is not None:
        primary = shards_of_view(primary, view.storage, view.offers[audio])
    is_latents = bool(own.snapshot.origin)
    return OpenedRemote(primary, joined, _suffixes(storage.uri if is_latents else None, asked.latents), columns)


def _first_evaluated(
    folder: ShardFolder, snapshots: Iterable[NumberedSnapshot], request: StreamRequest
) -> tuple[NumberedSnapshot, ShardSet]:
    """The newest of some snapshots whose columns `where` can be evaluated on, and the shards that `where` takes."""
    assert request.selection.where is not None
    output = open_storage(output_of(request.remote, folder), request.transfer)
    where = WhereCondition(request.selection.where, output, request.cache_folder, dict(request.pins.of_where))
    fault: NoColumnError | None = None
    for found in snapshots:
        shards = _open_snapshot(folder.storage, found, request.selection.split)
        assert isinstance(shards.shards, SnapshotShards)
        try:
            storage, view = where.view(_as_audio(found), shards.shards.table)
        except NoColumnError as error:  # perhaps its columns are only built for an older snapshot
            fault = fault or error
            continue
        return found, shards_of_view(shards, storage, view, columns_of(view))
    assert fault is not None  # there are snapshots
    raise fault


def _as_audio(found: NumberedSnapshot) -> NumberedSnapshot:
    """The audio snapshot that a snapshot is, or belongs to, as far as columns need it: its number and fingerprint."""
    number = found.snapshot.origin.get("audio_snapshot", found.number)
    return NumberedSnapshot(number, replace(found.snapshot, fingerprint=audio_of(found.snapshot)))


def _suffixes(own: str | None, folders: Sequence[str]) -> tuple[str, ...]:
    """Suffixes that distinguish the latents of several folders in a sample: the folder's last name; empty for one.

    Args:
        own: the stream's own folder, if it holds latents; its suffix is the first one, which is empty otherwise.
        folders: the folders that are joined to it.
    """
    names = [folder.rstrip("/").rpartition("/")[2] for folder in (*([] if own is None else [own]), *folders)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two folders of latents are called {twice!r}: samples distinguish latents by that name "
            f"(encoder_hidden_{twice}); rename one, or link to it by another name"
        )
    found = [""] * len(names) if len(names) < 2 else [f"_{name}" for name in names]
    return tuple(found if own is not None else ["", *found])


def _split_of(found: NumberedSnapshot, split: str | None) -> str | None:
    return split if split in found.snapshot.splits else None  # an empty split of the audio has no latents


def _latent_folders(request: StreamRequest, output: str) -> Iterator[ShardFolder]:
    """The folders of latents with their snapshots, or with those that are pinned, which need no listing."""
    names = request.selection.latents
    for name, pin in zip(names, request.pins.of_latents or [None] * len(names), strict=True):
        place = place_of(output, LATENTS, name)
        if pin is not None:
            yield ShardFolder(ITSELF, open_storage(place, request.transfer), (pin,))
        else:
            yield _latents(place, request.transfer)


def _latents(place: str, transfer: Transfer | None) -> ShardFolder:
    try:
        return locate(place, transfer=transfer).one_folder("a folder of latents")
    except NoShardsError as error:
        raise NoShardsError(f"{error}{parts_beside(place, transfer)}") from None


@dataclass(frozen=True, slots=True)
class _View:
    """A view, as something that is joined to a folder (`matching.Offering`)."""

    named: str
    storage: Storage
    offers: Mapping[str, NumberedView]
    what: str = VIEWS


def open_view(output: str, view: str, request: StreamRequest) -> _View:
    """The snapshots of a view, or the one that is asked for.

    Args:
        output: the output that the stream belongs to.
        view: the name of one of its views, or the folder of a view.
        request: what the stream asks for.

    Raises:
        NoShardsError: there is no view; the message lists those that are there.
    """
    place = place_of(output, VIEWS, view)
    storage = open_storage(place, request.transfer)
    pin = request.pins.of_view
    numbers = snapshot_numbers(storage) if pin is None else [pin]
    if not numbers:
        raise NoShardsError(
            f"{place}: no view there{parts_beside(place, request.transfer)}. Build the view (`views:` in the YAML file "
            "of the data set), or check the name"
        )
    found = [read_view(storage, number) for number in numbers]
    return _View(f"view {view!r}", storage, {one.snapshot.audio_fingerprint: one for one in found})
