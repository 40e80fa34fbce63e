"""Opens the shards of a stream at one snapshot, with its view, and the latents and columns joined to it.

`headrace.locate` finds what `remote` leads to. A shard folder is opened at its newest snapshot or a given one, audio
with latents and a view at the newest snapshot that all of them have, and a plain WebDataset by `foreign`. Listings,
snapshots and totals are read, never a shard of Headrace.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from headrace.locate.names import is_folder_name
from headrace.locate.no_shards import meant_latents
from headrace.locate.outputs import ITSELF, ShardFolder, output_of
from headrace.stores.storage import Storage, Transfer, open_storage
from headrace.streaming.shards.foreign import IndexKeeper, open_foreign
from headrace.streaming.shards.joined_columns import (
    ColumnRequest,
    ColumnSet,
    check_json,
    companions,
    lacking_tensors,
    metadata_companion,
    planned_sets,
)
from headrace.streaming.shards.matching import (
    LATENTS,
    Companion,
    Offering,
    audio_of,
    fitting_snapshots,
    newest_with_all,
)
from headrace.streaming.shards.shard_set import DataIdentity, ShardSet, SnapshotShards, snapshot_shards
from headrace.streaming.shards.view_shards import shards_of_view
from headrace.streaming.shards.where import WhereCondition, columns_of
from headrace.views.names import NoColumnError


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """Data that a stream asks to open.

    Attributes:
        remote: a name that `headrace.locate.locate` takes.
        latents: folders of latents to join by key.
        split: only this split; None for all.
        snapshot: number of the snapshot; None for the newest.
        latents_snapshots: numbers of the snapshots of the latents, one per folder; empty for the newest that belong to
            the audio snapshot.
        view: a view of the output that `remote` belongs to, by name, or the folder of a view; None for all samples.
        view_snapshot: number of the snapshot of the view; None for the newest that fits the audio snapshot.
        where: a condition on the columns of the output that `remote` belongs to; None for all samples.
        where_columns: sets of columns and the numbers of their snapshots for `where`; empty for the newest that fit.
        key_at: where keys end in plain tars.
        index_folder: folder in which indexes of plain tars are kept; None keeps them in memory.
        cache_folder: folder in which the result of `where` is kept.
        transfer: time limits of stores.
        columns: columns to join by the place of a sample in its shard.
        fields: the fields of samples that are read; None for all.
    """

    remote: str
    latents: tuple[str, ...] = ()
    split: str | None = None
    snapshot: int | None = None
    latents_snapshots: tuple[int, ...] = ()
    view: str | None = None
    view_snapshot: int | None = None
    where: str | None = None
    where_columns: tuple[tuple[str, int], ...] = ()
    key_at: KeyAt = KeyAt.FIRST_DOT
    index_folder: Path | None = None
    cache_folder: Path = Path()
    transfer: Transfer | None = None
    columns: ColumnRequest = field(default_factory=ColumnRequest)
    fields: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class OpenedRemote:
    """The shards of a stream, and of the latents joined to it.

    Attributes:
        primary: the shards whose samples are ordered.
        joined: the shards of each folder of latents.
        suffixes: added to the field name `encoder_hidden`, for the primary shards and then for each folder of latents.
        columns: the sets of columns that are joined to the samples.
        fields: the fields of samples that are read; None for all.
    """

    primary: ShardSet
    joined: tuple[ShardSet, ...] = ()
    suffixes: tuple[str, ...] = ("",)
    columns: tuple[ColumnSet, ...] = ()
    fields: frozenset[str] | None = None

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
    def latents_snapshots(self) -> tuple[int, ...]:
        """Numbers of the snapshots of the joined latents, one per folder."""
        return tuple(joined.identity.snapshot or 0 for joined in self.joined)  # never 0: latents have snapshots

    @property
    def where_columns(self) -> tuple[tuple[str, int], ...]:
        """The sets of columns that `where` was evaluated on, and the numbers of their snapshots."""
        view = self.primary.identity.view
        return () if view is None else view.columns

    @property
    def view_snapshot(self) -> int | None:
        """Number of the snapshot of the view; None without a view."""
        view = self.primary.identity.view
        return None if view is None else view.snapshot

    @property
    def tensors(self) -> tuple[tuple[str, str], ...]:
        """Name and dtype of each column that comes as a tensor, by name."""
        return tuple(sorted((tensor.spec.name, tensor.dtype) for one in self.columns for tensor in one.tensors))

    @property
    def columns_snapshots(self) -> dict[str, int]:
        """Numbers of the snapshots of the columns, by name of the set."""
        return {one.name: one.identity.snapshot or 0 for one in self.columns}  # never 0, as above

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
    return replace(_opened(request), fields=request.fields)


def _opened(request: StreamRequest) -> OpenedRemote:
    """Open a stream's shards.

    Raises:
        ConfigError: there is no such split, latents are joined to a plain WebDataset, a folder is on a web server that
            lists nothing, or `key_at` is given for an output of Headrace, whose keys are known.
        NotFoundError: nothing is there, or no such snapshot, or no audio snapshot that all latents have.
    """
    located = locate(request.remote, split=request.split, snapshot=request.snapshot, transfer=request.transfer)
    wanted = _wanted(request)
    if located.tars is not None and wanted is None:
        keeper = IndexKeeper(request.index_folder, request.key_at)
        return OpenedRemote(open_foreign(located.named, request.split, located.tars, keeper))
    folder = located.one_folder(wanted or "reading")
    if request.key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(
            f"key_at={request.key_at.value!r} is for plain tars, and {request.remote} is an output of Headrace, which "
            "knows its keys: leave it out here, and give it to the Stream that needs it"
        )
    if wanted is not None:
        return _open_joined(folder, request)
    return OpenedRemote(_open_snapshot(folder.storage, folder.snapshot(request.snapshot), request.split))


def _wanted(request: StreamRequest) -> str | None:
    """The argument that needs snapshots, for messages; None without one."""
    if request.where is not None:
        return f"where={request.where!r}"
    if request.view is not None:
        return f"view={request.view!r}"
    if request.latents:
        return f"latents={list(request.latents)}"
    if request.columns.names:
        return f"columns={list(request.columns.names)}"
    tensors = [tensor.name for tensor in request.columns.tensors]
    return f"tensors={tensors}" if tensors else None


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
    storage, transfer, asked = folder.storage, request.transfer, request.columns
    output = output_of(request.remote, folder)
    pairs = zip(request.latents, _pins(request), strict=True)
    latents = [Companion(name, LATENTS, _latents(name, pin, transfer, storage)) for name, pin in pairs]
    view = None if request.view is None else open_view(output, request.view, request)
    sets = companions(asked, output, transfer)
    others: list[Offering] = [*latents, *([] if view is None else [view])]
    own, audio = newest_with_all(folder, request.remote, request.snapshot, [*others, *sets])
    if lacking_tensors(asked, [one.offers[audio] for one in sets]) and (
        metadata := metadata_companion(asked, output, transfer)
    ):
        sets = [*sets, metadata]
        own, audio = newest_with_all(folder, request.remote, request.snapshot, [*others, *sets])
    primary = _open_snapshot(storage, own, request.split)
    if request.where is not None:
        fitting = fitting_snapshots(folder, request.snapshot, [*others, *sets])
        own, primary = _first_evaluated(folder, fitting, request)
        audio = audio_of(own.snapshot)
    joined = tuple(
        _open_snapshot(one.folder.storage, one.offers[audio], _split_of(one.offers[audio], request.split))
        for one in latents
    )
    columns = planned_sets(asked, [(one, one.offers[audio]) for one in sets], request.split, output)
    if asked.keeps_json and not all(one.only_fills for one in columns):
        table = metadata_companion(asked, output, transfer, is_pinned=False)
        check_json(columns, primary, None if table is None else table.offers.get(audio))
    if view is not None:
        primary = shards_of_view(primary, view.storage, view.offers[audio])
    is_latents = bool(own.snapshot.origin)
    return OpenedRemote(primary, joined, _suffixes(storage.uri if is_latents else None, request.latents), columns)


def _first_evaluated(
    folder: ShardFolder, snapshots: Iterable[NumberedSnapshot], request: StreamRequest
) -> tuple[NumberedSnapshot, ShardSet]:
    """The newest of some snapshots whose columns `where` can be evaluated on, and the shards that `where` takes."""
    assert request.where is not None
    output = open_storage(output_of(request.remote, folder), request.transfer)
    where = WhereCondition(request.where, output, request.cache_folder, dict(request.where_columns))
    fault: NoColumnError | None = None
    for found in snapshots:
        shards = _open_snapshot(folder.storage, found, request.split)
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


def _pins(request: StreamRequest) -> Sequence[int | None]:
    return request.latents_snapshots or [None] * len(request.latents)


def _latents(name: str, pin: int | None, transfer: Transfer | None, audio: Storage) -> ShardFolder:
    """A folder of latents with its snapshots, or with the one snapshot that is asked for, which needs no listing."""
    if pin is not None:
        return ShardFolder(ITSELF, open_storage(name, transfer), (pin,))
    try:
        return locate(name, transfer=transfer).one_folder("a folder of latents")
    except NoShardsError as error:
        storage = open_storage(name, transfer)
        raise NoShardsError(f"{error}{meant_latents(storage, audio)}") from None


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
    place = view if is_folder_name(view) else f"{output}/{VIEWS}/{view}"
    storage = open_storage(place, request.transfer)
    pin = request.view_snapshot
    numbers = snapshot_numbers(storage) if pin is None else [pin]
    if not numbers:
        raise NoShardsError(f"{place}: no view there{_other_views(place, request)}")
    found = [read_view(storage, number) for number in numbers]
    return _View(f"view {view!r}", storage, {one.snapshot.audio_fingerprint: one for one in found})


def _other_views(place: str, request: StreamRequest) -> str:
    """The end of an error for a missing view: the views beside it."""
    beside = open_storage(place.rstrip("/").rpartition("/")[0], request.transfer)
    names = sorted({entry.path.partition("/")[0] for entry in beside.list()})
    known = f"; there are {', '.join(names)}" if names else ""
    return f"{known}. Build the view (`views:` in the YAML file of the data set), or check the name"
