"""Opens the shards of a stream at one snapshot, with its view, and the latents and columns joined to it.

`headrace.locate` finds what `remote` leads to. A shard folder is opened at its newest snapshot or a given one, audio
with latents and a view at the newest snapshot that all of them have, and a plain WebDataset by `foreign`. Listings,
snapshots and totals are read, never a shard of Headrace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import ConfigError, HeadraceError, NoShardsError
from headrace.format.beside.column_files import SPECS_KEY
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import VIEWS, NumberedView
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot, snapshot_numbers
from headrace.format.snapshots.tar_lists import TARS
from headrace.format.tars.member_names import KeyAt
from headrace.locate import locate
from headrace.locate.no_shards import parts_beside
from headrace.locate.outputs import ITSELF, LATENTS, ShardFolder, output_of, place_of
from headrace.output_kinds import LATENT_PREFIX
from headrace.stores.requests import StoreRequests
from headrace.stores.storage import Storage, Transfer, open_storage, pinned, revision_of
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.output_fields import OutputField, hidden_field, output_fields, outputs_of_origin
from headrace.streaming.rasters import Raster
from headrace.streaming.selection import Pins, Selection
from headrace.streaming.settings import FetchSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.foreign import IndexKeeper, open_foreign
from headrace.streaming.shards.indexed_tars import check_named, open_indexed
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
from headrace.streaming.shards.shard_set import ShardSet, SnapshotShards, snapshot_shards
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
        outputs: the fields of the latents of the primary shards, and then of each folder of latents.
        columns: the sets of columns that are joined to the samples.
        fields: the fields of samples that are read; None for all.
        is_latents: whether the primary shards are those of a folder of latents with snapshots.
        rasters: names of fields, and the grids of events that they are.
    """

    primary: ShardSet
    joined: tuple[ShardSet, ...] = ()
    outputs: tuple[tuple[OutputField, ...], ...] = ((hidden_field(),),)
    columns: tuple[ColumnSet, ...] = ()
    fields: frozenset[str] | None = None
    is_latents: bool = False
    rasters: tuple[tuple[str, Raster], ...] = ()

    @property
    def own_outputs(self) -> tuple[OutputField, ...]:
        """The outputs of the primary shards that are read, at least one."""
        return self._wanted(self.outputs[0]) or self.outputs[0][:1]

    @property
    def joined_outputs(self) -> tuple[tuple[OutputField, ...], ...]:
        """The outputs that are read of each folder of joined latents; none of one that is not wanted."""
        return tuple(map(self._wanted, self.outputs[1:]))

    @property
    def outputs_that_are_read(self) -> tuple[OutputField, ...]:
        """The outputs of the primary shards and of the joined latents that are wanted."""
        return (*self.own_outputs, *(field for outputs in self.joined_outputs for field in outputs))

    def _wanted(self, outputs: Sequence[OutputField]) -> tuple[OutputField, ...]:
        return tuple(field for field in outputs if self.fields is None or field.values in self.fields)

    @property
    def has_metadata(self) -> bool:
        """Whether the samples have metadata: their JSON, or columns."""
        is_wanted = self.fields is None or "metadata" in self.fields
        return is_wanted or any(one.joined for one in self.columns)

    @property
    def tensors(self) -> tuple[tuple[str, str], ...]:
        """Name and type (dtype, and shape of a sample) of each column that comes as a tensor, by name."""
        tensors = (tensor for one in self.columns for tensor in one.tensors)
        return tuple(sorted((one.spec.name, " by ".join([one.dtype, *map(str, one.shape)])) for one in tensors))

    @property
    def labels(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Name and labels of each column of text that comes as a tensor; the place of a label is its number."""
        columns = (tensor for one in self.columns for tensor in one.tensors)
        return tuple(sorted((one.spec.name, tuple(one.labels)) for one in columns if one.labels is not None))

    @property
    def pins(self) -> Pins:
        """Numbers of the snapshots that are open."""
        view = self.primary.identity.view
        return Pins(
            self.primary.identity.snapshot,
            tuple(joined.identity.snapshot or 0 for joined in self.joined),  # never 0: latents have snapshots
            None if view is None else view.snapshot,
            () if view is None else view.columns,
            {one.name: one.identity.snapshot or 0 for one in self.columns},  # never 0, as above
            revision_of(self.primary.storage),
        )

    @property
    def latents_fingerprints(self) -> tuple[str, ...]:
        """Fingerprints of the joined latents, one for each folder."""
        return tuple(joined.identity.fingerprint for joined in self.joined)


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
    wanted = selection.needs_snapshots
    located = locate(
        request.remote,
        split=selection.split,
        snapshot=request.number,
        transfer=request.transfer,
        looks_for_index=wanted is not None or request.number is not None,
        revision=request.pins.revision,
    )
    if located.tars is not None and located.tars.indexed is not None:
        opened = _open_folder(located.tars.indexed, request)
        if selection.key_at not in {KeyAt.FIRST_DOT, opened.primary.identity.key_at}:
            raise ConfigError(
                f"key_at={selection.key_at.value!r}: the tars of {request.remote} were indexed with "
                f"{opened.primary.identity.key_at.value!r}: leave it out, or index them again into another folder"
            )
        if request.number is None:
            check_named(request.remote, located.tars, opened.primary.shards)
        return opened
    if located.tars is not None and wanted is None:
        located.check_built()
        keeper = IndexKeeper(request.index_folder, selection.key_at)
        primary = open_foreign(located.named, selection.split, located.tars, keeper)
        return OpenedRemote(primary, outputs=(_outputs_of_tars(primary),))
    folder = located.one_folder(wanted or "reading")
    if selection.key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(
            f"key_at={selection.key_at.value!r} is for plain tars, and {request.remote} is an output of Headrace, "
            "which knows its keys: leave it out here, and give it to the Stream that needs it"
        )
    return _open_folder(folder, request)


def _open_folder(folder: ShardFolder, request: StreamRequest) -> OpenedRemote:
    if request.selection.needs_snapshots is not None:
        return _open_joined(folder, request)
    found = folder.snapshot(request.number)
    primary = _open_snapshot(folder.storage, found, request.selection.split, request.transfer)
    is_latents = _is_of_latents(found.snapshot)
    outputs = _outputs([(folder.storage.uri, found.snapshot)]) if is_latents else ((hidden_field(),),)
    if TARS in found.snapshot.origin:
        outputs = (_outputs_of_tars(primary),)
    return OpenedRemote(primary, outputs=outputs, is_latents=is_latents)


def _is_of_latents(snapshot: Snapshot) -> bool:
    """Whether a snapshot is that of a folder of latents, which belong to an audio snapshot."""
    return "audio_fingerprint" in snapshot.origin


def _outputs_of_tars(tars: ShardSet) -> tuple[OutputField, ...]:
    """The fields of the latents of tars without a snapshot of latents.

    Only tars that are called like latent shards are looked at: it is the index of the first that lists its outputs.
    """
    first = tars.shards.name(0) if len(tars) else ""
    if not first.rpartition("/")[2].startswith(LATENT_PREFIX):
        return (hidden_field(),)
    try:
        known = tars.load_index(tars.storage, first).outputs
    except HeadraceError:  # which reading reports, or skips
        return (hidden_field(),)
    (fields,) = output_fields([("", known)])
    return fields if known and known[0].is_named else (hidden_field(),)


def _open_snapshot(
    storage: Storage, found: NumberedSnapshot, split: str | None, transfer: Transfer | None = None
) -> ShardSet:
    if TARS in found.snapshot.origin:
        return open_indexed(storage, found, split, transfer)
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
    primary = _open_snapshot(storage, own, split, request.transfer)
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
    is_latents = _is_of_latents(own.snapshot)
    with_outputs = [(storage.uri, own.snapshot)] if is_latents else []
    outputs = _outputs([*with_outputs, *((one.named, one.offers[audio].snapshot) for one in latents)])
    outputs = outputs if is_latents else ((hidden_field(),), *outputs)
    return OpenedRemote(primary, joined, outputs, columns, is_latents=is_latents)


def _first_evaluated(
    folder: ShardFolder, snapshots: Iterable[NumberedSnapshot], request: StreamRequest
) -> tuple[NumberedSnapshot, ShardSet]:
    """The newest of some snapshots whose columns `where` can be evaluated on, and the shards that `where` takes."""
    assert request.selection.where is not None
    output = open_storage(output_of(request.remote, folder), request.transfer)
    where = WhereCondition(request.selection.where, output, request.cache_folder, dict(request.pins.of_where))
    fault: NoColumnError | None = None
    for found in snapshots:
        shards = _open_snapshot(folder.storage, found, request.selection.split, request.transfer)
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


def _outputs(folders: Sequence[tuple[str, Snapshot]]) -> tuple[tuple[OutputField, ...], ...]:
    """The fields of the latents of each folder, from its name and snapshot."""
    names = [folder.rstrip("/").rpartition("/")[2] for folder, _ in folders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two folders of latents are called {twice!r}: samples distinguish latents by that name "
            f"(encoder_hidden_{twice}); rename one, or link to it by another name"
        )
    known = (outputs_of_origin(snapshot.origin, folder) for folder, snapshot in folders)
    return tuple(output_fields(list(zip(names, known, strict=True))))


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
