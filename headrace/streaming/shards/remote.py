"""Opens the shards of a stream at one snapshot, and those of the latents joined to it.

`headrace.locate` finds what `remote` leads to. A shard folder is opened at its newest snapshot or a given one, audio
with latents at the newest snapshot that all latents have, and a plain WebDataset by `foreign`. Listings and snapshots
are read, never a shard of Headrace.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import ConfigError, NoShardsError, NotFoundError
from headrace.format.index_files import read_index
from headrace.format.member_names import KeyAt
from headrace.format.snapshots import NumberedSnapshot
from headrace.locate import locate
from headrace.locate.no_shards import meant_latents
from headrace.locate.outputs import ITSELF, ShardFolder
from headrace.stores.storage import Storage, Transfer, open_storage
from headrace.streaming.shards.foreign import IndexKeeper, open_foreign
from headrace.streaming.shards.shard_set import DataIdentity, ShardSet, snapshot_shards


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
        key_at: where keys end in plain tars.
        index_folder: folder in which indexes of plain tars are kept; None keeps them in memory.
        transfer: time limits of stores.
    """

    remote: str
    latents: tuple[str, ...] = ()
    split: str | None = None
    snapshot: int | None = None
    latents_snapshots: tuple[int, ...] = ()
    key_at: KeyAt = KeyAt.FIRST_DOT
    index_folder: Path | None = None
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
    if located.tars is not None and not request.latents:
        keeper = IndexKeeper(request.index_folder, request.key_at)
        return OpenedRemote(open_foreign(request.remote, request.split, located.tars, keeper))
    folder = located.one_folder(f"latents={list(request.latents)}")
    if request.key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(
            f"key_at={request.key_at.value!r} is for plain tars, and {request.remote} is an output of Headrace, which "
            "knows its keys: leave it out here, and give it to the Stream that needs it"
        )
    if request.latents:
        return _open_joined(folder, request)
    return OpenedRemote(_open_snapshot(folder.storage, folder.snapshot(request.snapshot), request.split))


def _open_snapshot(storage: Storage, found: NumberedSnapshot, split: str | None) -> ShardSet:
    shards, identity = snapshot_shards(storage, found, split)
    return ShardSet(storage, shards, identity, read_index, is_named_by_content=True)


def _open_joined(folder: ShardFolder, request: StreamRequest) -> OpenedRemote:
    """Audio at the newest snapshot for which all folders of latents have one, each at its newest for that snapshot."""
    numbers = [request.snapshot] if request.snapshot is not None else folder.numbers[::-1]
    pairs = zip(request.latents, _pins(request), strict=True)
    folders = [_latents(name, pin, request.transfer, folder.storage) for name, pin in pairs]
    offers = list(map(_by_audio, folders))
    for number in numbers:
        audio = folder.snapshot(number)
        if all(audio.snapshot.fingerprint in offer for offer in offers):
            chosen = [offer[audio.snapshot.fingerprint] for offer in offers]
            break
    else:
        raise NotFoundError(f"{request.remote}: {_lack(folder, request, offers)}")
    joined = tuple(
        _open_snapshot(latents.storage, found, _split_of(found, request.split))
        for latents, found in zip(folders, chosen, strict=True)
    )
    return OpenedRemote(_open_snapshot(folder.storage, audio, request.split), joined, ("", *_suffixes(request.latents)))


def _lack(audio_folder: ShardFolder, request: StreamRequest, offers: Sequence[Mapping[str, NumberedSnapshot]]) -> str:
    """The message where no audio snapshot has all latents: which are missing, what each folder has, what to do."""
    audio = {number: audio_folder.snapshot(number).snapshot.fingerprint for number in audio_folder.numbers}
    have = {
        folder: [number for number, fingerprint in audio.items() if fingerprint in offer]
        for folder, offer in zip(request.latents, offers, strict=True)
    }
    number = request.snapshot
    lacking = [folder for folder, numbers in have.items() if not numbers or number not in {None, *numbers}]
    asked = "no snapshot of the audio has" if number is None else f"snapshot {number} has no"
    which = " or ".join(lacking) if lacking else f"all of {', '.join(have)}"
    found = "; ".join(
        f"{folder} {_held(have[folder], offer)}"
        for folder, offer in zip(request.latents, offers, strict=True)
        if folder in (lacking or have)
    )
    return f"{asked} latents in {which}: {found}. Build those that are missing, or pick another snapshot"


def _held(numbers: Sequence[int], offer: Mapping[str, NumberedSnapshot]) -> str:
    """What a folder of latents holds: latents of these audio snapshots (`numbers`), or of other audio."""
    if numbers:
        return f"has those of snapshot{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    if not any(offer):
        return "holds no latents but audio: name a folder latents/NAME"
    return "has latents of other audio: of another data set, or of snapshots that are removed"


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
