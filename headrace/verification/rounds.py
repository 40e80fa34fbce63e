"""Verifies shards a part at a time, and goes on where an interrupted verification stopped.

Which part comes next is in the marks of each shard folder (`headrace.verification.marks`), which are written while the
shards are read. A shard that had faults is read again in every round until it is sound or no longer in the newest
snapshot.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction

from headrace.errors import ConfigError
from headrace.locate.shard_list import LocatedShard
from headrace.stores.storage import Storage
from headrace.verification.marks import Arc, Marks, place_of, read_marks, write_marks
from headrace.verification.shard_check import CheckedShard
from headrace.verification.verify import Checks, Target, Verdict

_SAVE_SECONDS = 60.0


@dataclass(slots=True)
class Round:
    """Shards of one folder to verify, and the progress so far.

    Attributes:
        storage: the folder.
        arc: the part of the circle of shards that is verified.
        marks: the folder's marks, as far as this round has come.
        suspects: shards outside of the part that had faults, which are read first.
        due: the shards of the part, in the order of their places.
        names: all shards of the folder.
    """

    storage: Storage
    arc: Arc
    marks: Marks
    suspects: tuple[LocatedShard, ...]
    due: tuple[LocatedShard, ...]
    names: tuple[str, ...] = field(repr=False)

    @property
    def num_shards(self) -> int:
        """Number of shards that the round reads."""
        return len(self.suspects) + len(self.due)

    def coverage(self) -> str:
        """Number of shards of the folder that were verified, and since when, in words."""
        times = [seconds for name in self.names if (seconds := self.marks.verified_seconds(name)) is not None]
        if len(times) < len(self.names):
            return f"{len(times)} of {len(self.names)} shards were verified so far"
        oldest = datetime.fromtimestamp(min(times, default=0.0), UTC)
        return f"all {len(self.names)} shards were verified since {oldest:%Y-%m-%d %H:%M} UTC"


def plan_rounds(target: Target, share: Fraction | None) -> list[Round]:
    """The next round of each shard folder of a target.

    Args:
        target: the shards and their folders.
        share: the share of each folder's shards, above 0 and at most 1; None for what an interrupted verification
            left, or otherwise all.

    Raises:
        ConfigError: the shards are not those of an output of Headrace.
    """
    return [_planned(storage, shards, share) for storage, shards in _by_folder(target.shards)]


def verify_rounds(
    target: Target,
    rounds: Iterable[Round],
    checks: Checks,
    clock: Callable[[], float],
    progress: Callable[[CheckedShard], None] = lambda shard: None,  # noqa: ARG005
) -> Verdict:
    """Read the shards of some rounds, and keep marks of what was verified.

    The marks are written about once a minute, so that an interrupted verification loses a minute.

    Args:
        target: where the rounds are from, with the faults that were found without reading a shard.
        rounds: what to read.
        checks: reads shards.
        clock: the time in seconds since 1970.
        progress: called after each shard.

    Raises:
        StorageError: the marks cannot be written.
    """
    verdict = Verdict(list(target.faults))
    for part in rounds:
        with closing(_each(part, checks, clock)) as results:  # writes the marks, also if `progress` fails
            for checked in results:
                progress(checked)
                verdict.add(checked)
    return verdict


def _each(part: Round, checks: Checks, clock: Callable[[], float]) -> Generator[CheckedShard]:
    """The results of the shards of a round; the marks follow each result."""
    began = saved = clock()
    due = {shard.name for shard in part.due}
    try:
        for checked in checks([*part.suspects, *part.due]):
            name = checked.shard.name
            part.marks = part.marks.judged(name, is_sound=not checked.faults)
            if name in due:
                part.marks = part.marks.through(part.arc, part.arc.distance(place_of(name)) + 1, began)
            if clock() - saved >= _SAVE_SECONDS:
                write_marks(part.storage, part.marks)
                saved = clock()
            yield checked
        part.marks = part.marks.through(part.arc, part.arc.length, began)
    finally:
        write_marks(part.storage, part.marks)


def _planned(storage: Storage, shards: list[LocatedShard], share: Fraction | None) -> Round:
    marks, by_name = read_marks(storage), {shard.name: shard for shard in shards}
    arc = marks.arc(share)
    due = arc.ordered(by_name)
    suspects = [by_name[name] for name in marks.suspects if name in by_name and place_of(name) not in arc]
    still = tuple(name for name in marks.suspects if name in by_name)
    kept = Marks(marks.next, marks.left, marks.verified, still)
    return Round(storage, arc, kept, tuple(suspects), tuple(by_name[name] for name in due), tuple(by_name))


def _by_folder(shards: Iterable[LocatedShard]) -> list[tuple[Storage, list[LocatedShard]]]:
    """The shards of each folder, which must be folders of an output."""
    folders: dict[str, tuple[Storage, list[LocatedShard]]] = {}
    for shard in shards:
        if shard.storage is None or not shard.is_built:
            raise ConfigError(
                f"{shard.url}: only outputs of Headrace are verified in parts: leave out --fraction and --resume"
            )
        folders.setdefault(shard.storage.uri, (shard.storage, []))[1].append(shard)
    return list(folders.values())
