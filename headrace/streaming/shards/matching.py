"""Finds the newest snapshot of a stream's own folder that all folders joined to it have, too.

Latents and columns name the audio snapshot that they belong to. Snapshots are read, never a shard.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import ConfigError, NotFoundError
from headrace.format.beside.column_files import SPECS_KEY
from headrace.format.lazy import cached_property
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot
from headrace.locate.outputs import COLUMNS, LATENTS, ShardFolder


class Offering(Protocol):
    """Data that is joined to a stream's own folder: a folder of latents, a set of columns, or a view."""

    @property
    def named(self) -> str:
        """Name that the user gave, for messages."""

    @property
    def what(self) -> str:
        """Kind of its content, as the folder of an output: `LATENTS`, `COLUMNS` or `VIEWS`."""

    @property
    def offers(self) -> Mapping[str, object]:
        """Its newest snapshot for each audio snapshot, by the fingerprint of the audio snapshot."""


@dataclass(frozen=True)
class Companion:
    """A folder whose shards are joined to those of a stream.

    Attributes:
        named: the folder as the user named it, for messages.
        what: what it holds: `LATENTS` or `COLUMNS`.
        folder: the folder with its snapshots.
    """

    named: str
    what: str
    folder: ShardFolder

    @cached_property
    def offers(self) -> dict[str, NumberedSnapshot]:
        """See `Offering.offers`.

        Raises:
            ConfigError: the folder holds latents instead of columns, or columns instead of latents.
        """
        found = [self.folder.snapshot(number) for number in self.folder.numbers]
        for numbered in found:
            if numbered.snapshot.origin and (SPECS_KEY in numbered.snapshot.origin) != (self.what == COLUMNS):
                held = LATENTS if self.what == COLUMNS else COLUMNS
                raise ConfigError(f"{self.named}: holds {held}, not {self.what}: pass it as {held}=[…]")
        return {str(numbered.snapshot.origin.get("audio_fingerprint", "")): numbered for numbered in found}


def audio_of(snapshot: Snapshot) -> str:
    """Fingerprint of the audio snapshot that a snapshot is, or belongs to."""
    return str(snapshot.origin.get("audio_fingerprint", snapshot.fingerprint))


def newest_with_all(
    folder: ShardFolder, named: str, number: int | None, companions: Sequence[Offering]
) -> tuple[NumberedSnapshot, str]:
    """The newest snapshot of a folder that all companions belong to, and the fingerprint of its audio snapshot.

    Args:
        folder: the stream's own folder.
        named: the folder as the user named it, for messages.
        number: only this snapshot of the folder; None for any.
        companions: the folders that are joined to it.

    Raises:
        ConfigError: a companion holds something else.
        NotFoundError: there is no such snapshot; the message says which companions lack what.
    """
    own = next(fitting_snapshots(folder, number, companions), None)
    if own is None:
        raise NotFoundError(f"{named}: {_lack(folder, number, companions)}")
    return own, audio_of(own.snapshot)


def fitting_snapshots(
    folder: ShardFolder, number: int | None, companions: Sequence[Offering]
) -> Iterator[NumberedSnapshot]:
    """The snapshots of a folder that all companions belong to, from the newest on; see `newest_with_all`."""
    for tried in [number] if number is not None else folder.numbers[::-1]:
        own = folder.snapshot(tried)
        if all(audio_of(own.snapshot) in companion.offers for companion in companions):
            yield own


def _lack(folder: ShardFolder, number: int | None, companions: Sequence[Offering]) -> str:
    """The message where no snapshot has all companions: which are missing, what each has, what to do."""
    audio = {found: audio_of(folder.snapshot(found).snapshot) for found in folder.numbers}
    have = {
        companion.named: [found for found, fingerprint in audio.items() if fingerprint in companion.offers]
        for companion in companions
    }
    lacking = [one for one in companions if not have[one.named] or number not in {None, *have[one.named]}]
    asked = "no snapshot of the audio has" if number is None else f"snapshot {number} has no"
    which = " or ".join(one.named for one in lacking) if lacking else f"all of {', '.join(have)}"
    found = "; ".join(f"{one.named} {_held(one, have[one.named])}" for one in lacking or companions)
    what = " or ".join(dict.fromkeys(one.what for one in lacking or companions))
    return f"{asked} {what} in {which}: {found}. Build those that are missing, or pick another snapshot"


def _held(companion: Offering, numbers: Sequence[int]) -> str:
    """Describe the content of a companion: data of these snapshots (`numbers`), or of other audio."""
    if numbers:
        return f"has those of snapshot{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    if not any(companion.offers):
        return f"holds no {companion.what} but audio: name a folder {companion.what}/NAME"
    return "belongs to other audio: of another data set, or of snapshots that are removed"
