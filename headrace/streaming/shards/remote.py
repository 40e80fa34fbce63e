"""From a `remote` to the shards behind it, pinned to one snapshot.

Owns the choice: one of our folders at its newest or a given snapshot, audio at the newest snapshot that all its latents
have, or any plain WebDataset (`foreign`). It reads listings and snapshots, never a shard.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import ConfigError, NotFoundError
from headrace.index import ShardIndex, index_name
from headrace.snapshots import NumberedSnapshot, read_snapshot
from headrace.storage import Storage, Transfer, open_storage
from headrace.streaming.shards.finding import has_shards, hint, is_pattern
from headrace.streaming.shards.foreign import open_foreign
from headrace.streaming.shards.listing import listed_snapshots, listing
from headrace.streaming.shards.shardset import Identity, ShardSet, snapshot_shards


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a remote is wanted.

    Attributes:
        remote: a folder or prefix of ours, or any plain WebDataset: folder, `sizes.json`, glob or brace pattern.
        latents: folders of latents to join by key.
        split: None for all.
        snapshot: its number; None for the newest.
        latents_snapshots: their numbers, one a folder; empty for the newest that belong to the audio snapshot.
        index_folder: where indexes of foreign shards are kept; None for memory.
        transfer: time limits of stores.
    """

    remote: str
    latents: tuple[str, ...] = ()
    split: str | None = None
    snapshot: int | None = None
    latents_snapshots: tuple[int, ...] = ()
    index_folder: Path | None = None
    transfer: Transfer | None = None


@dataclass(frozen=True, slots=True)
class OpenedRemote:
    """The shards of a stream, and of the latents joined to it.

    Attributes:
        primary: what the order counts.
        joined: one a latents folder.
        suffixes: what is added to `encoder_hidden` for each of them in turn, primary first.
    """

    primary: ShardSet
    joined: tuple[ShardSet, ...] = ()
    suffixes: tuple[str, ...] = ("",)

    @property
    def latents_snapshots(self) -> tuple[int, ...]:
        """Numbers of the snapshots of the joined latents, one a folder."""
        return tuple(joined.identity.snapshot or 0 for joined in self.joined)  # never 0: latents have snapshots

    @property
    def identity(self) -> Identity:
        """What a saved state says of it: with latents, the fingerprint is that of all together."""
        own = self.primary.identity
        if not self.joined:
            return own
        together = " ".join([own.fingerprint, *(joined.identity.fingerprint for joined in self.joined)])
        return replace(own, fingerprint=hashlib.sha256(together.encode()).hexdigest())


def open_remote(wanted: Wanted) -> OpenedRemote:
    """Open a stream's shards.

    Raises:
        ConfigError: the remote is neither of ours nor a WebDataset, lacks the split, or latents are joined to a plain
            WebDataset, or a folder is on a web server that lists nothing.
        NotFoundError: no such snapshot, or no audio snapshot that all latents have.
    """
    if is_pattern(wanted.remote):
        if wanted.latents:
            raise ConfigError(
                f"{wanted.remote}: latents={wanted.latents!r} needs a folder with snapshots, not a plain WebDataset"
            )
        return OpenedRemote(_open_foreign(wanted))
    storage = open_storage(wanted.remote, wanted.transfer)
    if wanted.latents:
        return _open_joined(storage, wanted)
    number = wanted.snapshot
    if number is None and not listed_snapshots(storage):
        return OpenedRemote(_open_foreign(wanted))
    return OpenedRemote(_open_snapshot(storage, _snapshot(storage, number), wanted.split))


def _snapshot(storage: Storage, number: int | None) -> NumberedSnapshot:
    """Snapshot `number`, or the newest. Raises `NotFoundError` when it is gone, or never was."""
    try:
        with listing(storage):
            return read_snapshot(storage, number)
    except NotFoundError:
        if listed_snapshots(storage):
            raise
        raise _without_snapshots(storage, f"snapshot={number}", f"no snapshot {number}, nor any other") from None


def _without_snapshots(storage: Storage, asked: str, lack: str) -> NotFoundError:
    """What to say of a folder that has no snapshots: of a plain WebDataset by what was asked, else by what it lacks."""
    if has_shards(storage):
        return NotFoundError(
            f"{storage.uri}: {asked} needs snapshots, and this is a plain WebDataset, which has none: leave it out"
        )
    return NotFoundError(f"{storage.uri}: {lack}; {hint(storage)}")


def _open_snapshot(storage: Storage, found: NumberedSnapshot, split: str | None) -> ShardSet:
    shards, identity = snapshot_shards(storage, found, split)
    return ShardSet(storage, shards, identity, read_index, is_named_by_content=True)


def _open_joined(storage: Storage, wanted: Wanted) -> OpenedRemote:
    """Audio at the newest snapshot that all latents have, each with its newest snapshot for that one."""
    numbers = [wanted.snapshot] if wanted.snapshot is not None else listed_snapshots(storage)[::-1]
    if not numbers:
        lack = "no snapshot of audio yet that latents could belong to"
        raise _without_snapshots(storage, f"latents={list(wanted.latents)}", lack)
    folders = [open_storage(latents, wanted.transfer) for latents in wanted.latents]
    offers = [_by_audio(folder, number) for folder, number in zip(folders, _pins(wanted), strict=True)]
    for number in numbers:
        audio = _snapshot(storage, number)
        if all(audio.snapshot.fingerprint in offer for offer in offers):
            chosen = [offer[audio.snapshot.fingerprint] for offer in offers]
            break
    else:
        raise NotFoundError(f"{wanted.remote}: {_lack(wanted, numbers)}")
    joined = tuple(
        _open_snapshot(folder, found, _split_of(found, wanted.split))
        for folder, found in zip(folders, chosen, strict=True)
    )
    return OpenedRemote(_open_snapshot(storage, audio, wanted.split), joined, ("", *_suffixes(wanted.latents)))


def _lack(wanted: Wanted, numbers: Sequence[int]) -> str:
    """What is missing where none of the snapshots of these numbers has all latents."""
    none = f"snapshot {numbers[0]} lacks" if len(numbers) == 1 else f"each of the {len(numbers)} snapshots lacks"
    return f"{none} latents in {' or '.join(wanted.latents)}; build them, or pick another snapshot"


def _suffixes(folders: Sequence[str]) -> list[str]:
    """What tells the latents of several folders apart in a sample: nothing for one, else the folder's last name."""
    names = [folder.rstrip("/").rpartition("/")[2] for folder in folders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two folders of latents are called {twice!r}: samples tell them apart by that name (encoder_hidden_"
            f"{twice}); rename or link one"
        )
    return [""] if len(names) == 1 else [f"_{name}" for name in names]


def _split_of(found: NumberedSnapshot, split: str | None) -> str | None:
    return split if split in found.snapshot.splits else None  # an empty split of the audio has no latents


def _pins(wanted: Wanted) -> Sequence[int | None]:
    return wanted.latents_snapshots or [None] * len(wanted.latents)


def _by_audio(folder: Storage, pinned: int | None) -> dict[str, NumberedSnapshot]:
    """The newest snapshot of a latents folder for each audio snapshot, by the latter's fingerprint."""
    numbers = listed_snapshots(folder) if pinned is None else [pinned]
    if not numbers:
        raise _without_snapshots(folder, "a folder of latents", "no snapshot of latents yet")
    found = [_snapshot(folder, number) for number in numbers]
    return {str(latents.snapshot.origin.get("audio_fingerprint", "")): latents for latents in found}


def _open_foreign(wanted: Wanted) -> ShardSet:
    return open_foreign(wanted.remote, wanted.split, wanted.index_folder, wanted.transfer, wanted.snapshot)


def read_index(storage: Storage, shard: str) -> ShardIndex:
    """The index that lies beside a shard of ours."""
    name = index_name(shard)
    return ShardIndex.from_bytes(storage.read(name), f"{storage.uri}/{name}")
