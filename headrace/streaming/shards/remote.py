"""Opens the shards of a stream at one snapshot, with its view and the latents joined to it.

`headrace.locate` finds what `remote` leads to. A shard folder is opened at its newest snapshot or a given one, audio
with latents and a view at the newest snapshot that all of them have, and a plain WebDataset by `foreign`. Listings,
snapshots and totals are read, never a shard of Headrace.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from headrace.errors import ConfigError, NoShardsError, NotFoundError
from headrace.format.index_files import read_index
from headrace.format.member_names import KeyAt
from headrace.format.snapshots import NumberedSnapshot, snapshot_numbers
from headrace.format.view_files import read_view
from headrace.format.views import VIEWS, NumberedView
from headrace.locate import locate
from headrace.locate.names import is_folder_name
from headrace.locate.no_shards import meant_latents
from headrace.locate.outputs import ITSELF, ShardFolder, output_of
from headrace.stores.storage import Storage, Transfer, open_storage
from headrace.streaming.shards.foreign import IndexKeeper, open_foreign
from headrace.streaming.shards.shard_set import DataIdentity, ShardSet, SnapshotShards, snapshot_shards
from headrace.streaming.shards.view_shards import shards_of_view
from headrace.streaming.shards.where import Where, columns_of
from headrace.views.names import NoColumnError

_Offer: TypeAlias = Mapping[str, NumberedSnapshot] | Mapping[str, NumberedView]
"""What a folder of latents or a view has, by the fingerprint of the audio snapshot."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a stream asks to open.

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


@dataclass(frozen=True, slots=True)
class OpenedRemote:
    """The shards of a stream, and of the latents joined to it.

    Attributes:
        primary: the shards whose samples are ordered.
        joined: the shards of each folder of latents.
        suffixes: added to the field name `encoder_hidden`, for the primary shards and then for each folder of latents.
    """

    primary: ShardSet
    joined: tuple[ShardSet, ...] = ()
    suffixes: tuple[str, ...] = ("",)

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
    def identity(self) -> DataIdentity:
        """What a saved state records of it; with latents, the fingerprint covers all of them."""
        own = self.primary.identity
        if not self.joined:
            return own
        together = " ".join([own.fingerprint, *(joined.identity.fingerprint for joined in self.joined)])
        return replace(own, fingerprint=hashlib.sha256(together.encode()).hexdigest())


def open_remote(request: StreamRequest) -> OpenedRemote:
    """Open a stream's shards.

    Raises:
        ConfigError: there is no such split, latents are joined to a plain WebDataset, a folder is on a web server that
            lists nothing, or `key_at` is given for an output of Headrace, whose keys are known.
        NotFoundError: nothing is there, or no such snapshot, or no audio snapshot that all latents have.
    """
    located = locate(request.remote, split=request.split, snapshot=request.snapshot, transfer=request.transfer)
    if located.tars is not None and _wanted(request) is None:
        keeper = IndexKeeper(request.index_folder, request.key_at)
        return OpenedRemote(open_foreign(request.remote, request.split, located.tars, keeper))
    folder = located.one_folder(_wanted(request) or "reading")
    if request.key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(
            f"key_at={request.key_at.value!r} is for plain tars, and {request.remote} is an output of Headrace, which "
            "knows its keys: leave it out here, and give it to the Stream that needs it"
        )
    if _wanted(request) is not None:
        return _open_joined(folder, request)
    return OpenedRemote(_open_snapshot(folder.storage, folder.snapshot(request.snapshot), request.split))


def _wanted(request: StreamRequest) -> str | None:
    """The argument that needs snapshots, for messages; None without one."""
    if request.where is not None:
        return f"where={request.where!r}"
    if request.view is not None:
        return f"view={request.view!r}"
    return f"latents={list(request.latents)}" if request.latents else None


def _open_snapshot(storage: Storage, found: NumberedSnapshot, split: str | None) -> ShardSet:
    shards, identity = snapshot_shards(storage, found, split)
    return ShardSet(storage, shards, identity, read_index, is_named_by_content=True)


def _open_joined(folder: ShardFolder, request: StreamRequest) -> OpenedRemote:
    """Audio at the newest snapshot that all folders of latents and the view have, each at its newest for that one."""
    numbers = [request.snapshot] if request.snapshot is not None else folder.numbers[::-1]
    pairs = zip(request.latents, _pins(request), strict=True)
    folders = [_latents(name, pin, request.transfer, folder.storage) for name, pin in pairs]
    view = None if request.view is None else open_view(_view_place(folder, request), request)
    latents_offers = list(map(_by_audio, folders))
    offers: list[_Offer] = [*latents_offers, *([] if view is None else [view.by_audio])]
    fitting = (audio for audio in map(folder.snapshot, numbers) if all(_audio_of(audio) in offer for offer in offers))
    if request.where is not None:
        primary = _first_evaluated(folder, fitting, request)
    elif (found := next(fitting, None)) is not None:
        primary = _open_snapshot(folder.storage, found, request.split)
    else:
        primary = None
    if primary is None:
        raise NotFoundError(f"{request.remote}: {_lack(folder, request, offers)}")
    assert primary.identity.snapshot is not None
    wanted = _audio_of(folder.snapshot(primary.identity.snapshot))
    if view is not None:
        primary = shards_of_view(primary, view.storage, view.by_audio[wanted])
    joined = tuple(
        _open_snapshot(latents.storage, offer[wanted], _split_of(offer[wanted], request.split))
        for latents, offer in zip(folders, latents_offers, strict=True)
    )
    return OpenedRemote(primary, joined, ("", *_suffixes(request.latents)))


def _first_evaluated(
    folder: ShardFolder, snapshots: Iterable[NumberedSnapshot], request: StreamRequest
) -> ShardSet | None:
    """The shards that `where` takes of the newest of some snapshots whose columns it can be evaluated on."""
    assert request.where is not None
    output = open_storage(output_of(request.remote, folder), request.transfer)
    where = Where(request.where, output, request.cache_folder, dict(request.where_columns))
    fault: NoColumnError | None = None
    for found in snapshots:
        shards = _open_snapshot(folder.storage, found, request.split)
        assert isinstance(shards.shards, SnapshotShards)
        try:
            storage, view = where.view(_as_audio(found), shards.shards.table)
        except NoColumnError as error:  # perhaps its columns are only built for an older snapshot
            fault = fault or error
            continue
        return shards_of_view(shards, storage, view, columns_of(view))
    if fault is not None:
        raise fault
    return None


def _lack(
    audio_folder: ShardFolder,
    request: StreamRequest,
    offers: Sequence[_Offer],
) -> str:
    """The message where no audio snapshot has all latents and the view: what is missing, what is there, what to do."""
    audio = {number: _audio_of(audio_folder.snapshot(number)) for number in audio_folder.numbers}
    names = [*request.latents, *([] if request.view is None else [f"view {request.view!r}"])]
    have = {
        name: [number for number, fingerprint in audio.items() if fingerprint in offer]
        for name, offer in zip(names, offers, strict=True)
    }
    number = request.snapshot
    lacking = [name for name, numbers in have.items() if not numbers or number not in {None, *numbers}]
    asked = "no snapshot of the audio has" if number is None else f"snapshot {number} has no"
    which = " or ".join(lacking) if lacking else f"all of {', '.join(have)}"
    found = "; ".join(
        f"{name} {_held(have[name], offer)}"
        for name, offer in zip(names, offers, strict=True)
        if name in (lacking or have)
    )
    what = "latents" if request.view is None else "latents or views" if request.latents else "views"
    return f"{asked} {what} in {which}: {found}. Build those that are missing, or pick another snapshot"


def _held(numbers: Sequence[int], offer: _Offer) -> str:
    """What a folder of latents or a view holds: those of these audio snapshots (`numbers`), or of other audio."""
    if numbers:
        return f"has those of snapshot{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    if not any(offer):
        return "holds no latents but audio: name a folder latents/NAME"
    return "belongs to other audio: of another data set, or of snapshots that are removed"


def _suffixes(folders: Sequence[str]) -> list[str]:
    """Suffixes that distinguish the latents of several folders in a sample: the folder's last name; empty for one."""
    names = [folder.rstrip("/").rpartition("/")[2] for folder in folders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two folders of latents are called {twice!r}: samples distinguish latents by that name "
            f"(encoder_hidden_{twice}); rename one, or link to it by another name"
        )
    return [""] if len(names) == 1 else [f"_{name}" for name in names]


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


def _by_audio(folder: ShardFolder) -> dict[str, NumberedSnapshot]:
    """The newest snapshot of a latents folder for each audio snapshot, by the fingerprint of the audio snapshot."""
    found = [folder.snapshot(number) for number in folder.numbers]
    return {str(latents.snapshot.origin.get("audio_fingerprint", "")): latents for latents in found}


def _audio_of(found: NumberedSnapshot) -> str:
    """Fingerprint of the audio snapshot that a snapshot is, or belongs to."""
    return str(found.snapshot.origin.get("audio_fingerprint", found.snapshot.fingerprint))


def _as_audio(found: NumberedSnapshot) -> NumberedSnapshot:
    """The audio snapshot that a snapshot is, or belongs to, as far as columns need it: its number and fingerprint."""
    number = found.snapshot.origin.get("audio_snapshot", found.number)
    return NumberedSnapshot(number, replace(found.snapshot, fingerprint=_audio_of(found)))


@dataclass(frozen=True, slots=True)
class _View:
    """A view, and its newest snapshot for each audio snapshot, by the fingerprint of the audio snapshot."""

    storage: Storage
    by_audio: Mapping[str, NumberedView]


def open_view(place: str, request: StreamRequest) -> _View:
    """The snapshots of a view, or the one that is asked for.

    Raises:
        NoShardsError: there is no view; the message lists those that are there.
    """
    storage = open_storage(place, request.transfer)
    pin = request.view_snapshot
    numbers = snapshot_numbers(storage) if pin is None else [pin]
    if not numbers:
        raise NoShardsError(f"{place}: no view there{_other_views(place, request)}")
    found = [read_view(storage, number) for number in numbers]
    return _View(storage, {view.snapshot.audio_fingerprint: view for view in found})


def _view_place(folder: ShardFolder, request: StreamRequest) -> str:
    """Folder of a view that is named, or given by its folder."""
    assert request.view is not None
    if is_folder_name(request.view):
        return request.view
    return f"{output_of(request.remote, folder)}/{VIEWS}/{request.view}"


def _other_views(place: str, request: StreamRequest) -> str:
    """The end of an error for a missing view: the views beside it."""
    beside = open_storage(place.rstrip("/").rpartition("/")[0], request.transfer)
    names = sorted({entry.path.partition("/")[0] for entry in beside.list()})
    known = f"; there are {', '.join(names)}" if names else ""
    return f"{known}. Build the view (`views:` in the YAML file of the data set), or check the name"
