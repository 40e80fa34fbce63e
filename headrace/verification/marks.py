"""The marks that verification leaves in a shard folder: which part of the shards was verified when.

Every shard has a fixed place on a circle, by the SHA-256 of its name, and verification goes around the circle. So the
marks are a few arcs with times, however many shards there are, and new shards need no entry of their own. A shard that
was written after its arc was verified was compared with its index by its writer.

The file is `verified.json`. Readers and builds never open it; without it, verification begins again.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from headrace.errors import NotFoundError
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage

CIRCLE = 1 << 64
"""Number of places on the circle."""
_PLACES = range(CIRCLE + 1)
MARKS_FILE = "verified.json"
_FORMAT_KEY = "headrace_verified"
_MOST_SUSPECTS = 1000

_log = logging.getLogger(__name__)


def place_of(shard: str) -> int:
    """The place of a shard on the circle, 0 to `CIRCLE` - 1."""
    return int.from_bytes(hashlib.sha256(shard.encode()).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class Arc:
    """A part of the circle that begins at a place and goes around for a length, possibly over its end."""

    start: int
    length: int

    def distance(self, place: int) -> int:
        """Distance of a place from the start."""
        return (place - self.start) % CIRCLE

    def __contains__(self, place: int) -> bool:
        """Whether a place is on this arc."""
        return self.distance(place) < self.length

    def ordered(self, shards: Iterable[str]) -> list[str]:
        """The shards on this arc, in the order of their places from its start."""
        found = ((self.distance(place_of(shard)), shard) for shard in shards)
        return [shard for distance, shard in sorted(found) if distance < self.length]

    def straight(self) -> list[tuple[int, int]]:
        """The arc as half-open ranges from 0 to `CIRCLE`: two of them if it goes over the end."""
        stop = self.start + self.length
        parts = [(self.start, min(stop, CIRCLE)), (0, stop - CIRCLE)]
        return [(start, stop) for start, stop in parts if start < stop]


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """Places `start` to `stop` (half-open): their shards were last verified at `seconds` (Unix time) or later."""

    start: Annotated[int, _PLACES]
    stop: Annotated[int, _PLACES]
    seconds: float


@dataclass(frozen=True, slots=True)
class Marks:
    """Record of the parts that were verified, and when.

    Attributes:
        next: the place where the next verification of a part begins.
        left: how much of the last verification is left, from `next` on; 0 if it was not interrupted.
        verified: disjoint parts of the circle, in order.
        suspects: names of shards that had faults when they were last read.
    """

    next: Annotated[int, _PLACES] = 0
    left: Annotated[int, _PLACES] = 0
    verified: tuple[VerifiedRange, ...] = ()
    suspects: tuple[str, ...] = ()

    def arc(self, share: Fraction | None) -> Arc:
        """Part of the circle to verify next.

        Args:
            share: the share of all shards; None for what an interrupted verification left, or otherwise all shards.
        """
        length = self.left or CIRCLE if share is None else -(-CIRCLE * share.numerator // share.denominator)
        return Arc(self.next, length)

    def through(self, arc: Arc, length: int, seconds: float) -> "Marks":
        """The marks after the first `length` places of an arc were verified, since `seconds`."""
        done = Arc(arc.start, length).straight()
        kept = [part for old in self.verified for part in _without(old, done)]
        made = [VerifiedRange(start, stop, seconds) for start, stop in done]
        verified = tuple(_joined(sorted([*kept, *made], key=lambda part: part.start)))
        return replace(self, next=(arc.start + length) % CIRCLE, left=arc.length - length, verified=verified)

    def judged(self, shard: str, *, is_sound: bool) -> "Marks":
        """The marks after a shard was read."""
        others = [name for name in self.suspects if name != shard]
        return replace(self, suspects=tuple(others if is_sound else [*others, shard][-_MOST_SUSPECTS:]))

    def verified_seconds(self, shard: str) -> float | None:
        """When a shard was verified, if it existed then; None if its part of the circle never was."""
        place = place_of(shard)
        return next((part.seconds for part in self.verified if part.start <= place < part.stop), None)


def read_marks(storage: Storage) -> Marks:
    """The marks of a shard folder. Without a file, or with a damaged one, nothing counts as verified."""
    try:
        content = read_sound(storage, MARKS_FILE, _parsed)
        return typed(Marks, content)
    except NotFoundError:
        return Marks()
    except ValueError as error:  # damaged, or not of its form
        _log.warning("%s/%s is damaged, so verification begins again: %s", storage.uri, MARKS_FILE, error)
        return Marks()


def write_marks(storage: Storage, marks: Marks) -> None:
    """Replace the marks of a shard folder."""
    storage.write(MARKS_FILE, versioned_bytes(_FORMAT_KEY, asdict(marks)))


def _parsed(blob: bytes, name: str) -> dict[str, Any]:
    return versioned_json(blob, name, _FORMAT_KEY)


def _without(old: VerifiedRange, cuts: Sequence[tuple[int, int]]) -> list[VerifiedRange]:
    """Cut some ranges out of a part, and return the rest."""
    parts = [old]
    for start, stop in cuts:
        edges = [(part, (part.start, min(part.stop, start)), (max(part.start, stop), part.stop)) for part in parts]
        parts = [VerifiedRange(a, b, part.seconds) for part, *both in edges for a, b in both if a < b]
    return parts


def _joined(parts: Sequence[VerifiedRange]) -> list[VerifiedRange]:
    """Join neighbouring parts that were verified at the same time."""
    found: list[VerifiedRange] = []
    for part in parts:
        if found and found[-1].stop == part.start and found[-1].seconds == part.seconds:
            found[-1] = replace(found[-1], stop=part.stop)
        else:
            found.append(part)
    return found
