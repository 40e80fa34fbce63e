"""The reasons for which files, rows and latents are rejected, as one word each: the column `code` of the rejects.

It also counts rejects by reason, and compares the rejects of two builds. The sentence for a user is written where the
fault is found.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

REFUSED = "refused"
"""The entry of the JSON of a sample, under `headrace`, with the reason for which its latents were rejected."""


class RejectReason(StrEnum):
    """Why a file, a row or the latents of a sample are rejected; `headrace.audio` has further reasons."""

    TOO_SHORT = "too_short"
    DUPLICATE_KEY = "duplicate_key"
    BAD_KEY = "bad_key"
    METADATA_WITHOUT_FILE = "metadata_without_file"
    DUPLICATE = "duplicate"
    EXCLUDED = "excluded"
    EXCLUDES_NOTHING = "excludes_nothing"
    OUTSIDE_ROOT = "outside_root"
    UNREADABLE = "unreadable"
    BAD_NAME = "bad_name"
    NO_SAMPLE = "no_sample"
    """For rows of a table of columns: the row names no sample, or one whose audio was rejected."""
    BAD_SPAN = "bad_span"
    """For a row: begin, end or duration is not a finite number, is negative, or the end is before the begin."""
    EMPTY_SPAN = "empty_span"
    """For a row: its span has no frame."""
    OUTSIDE_RECORDING = "outside_recording"
    """For a row: its span is not in its recording."""
    FILE_REJECTED = "file_rejected"
    """For a row: its file is rejected."""
    BAD_SIDECAR = "bad_sidecar"
    """A sidecar cannot be read, or two have one name."""
    BAD_CHANNEL = "bad_channel"
    """For a row: its channel is not one of its recording."""
    NO_ROW = "no_row"
    """For a file, if rows are samples: no row names it."""
    NOT_FINITE = "not_finite"
    """For latents: the encoder returned numbers that are not finite."""
    OVERFLOW = "overflow"
    """For latents: finite numbers that are too large for the dtype in which latents are stored."""
    NO_TEXT = "no_text"
    """For latents of a text column: the text is null, missing, or has no tokens."""


OF_LATENTS = frozenset({RejectReason.NOT_FINITE, RejectReason.OVERFLOW, RejectReason.NO_TEXT})
"""Reasons for which the latents of a sample are rejected, and not its audio."""
ASKED_FOR = frozenset({RejectReason.DUPLICATE, RejectReason.EXCLUDED})
"""Reasons that the YAML asks for: nothing is wrong with these recordings."""


class RejectSubject(StrEnum):
    """Subject of a row of the table of rejects."""

    FILE = "file"
    """A file that the scan rejected; it counts as found."""
    METADATA = "metadata"
    """A row of the user's table."""
    EXCLUDE = "exclude"
    """A key of `exclude`: the segment that it excludes, or an error if it excludes nothing."""
    DECODE = "decode"
    """A recording of the catalog that was rejected when it was decoded."""


def latents_rejection(content: object) -> str | None:
    """The reason for which the latents of a sample were rejected, from its JSON; None if its JSON has no reason.

    >>> latents_rejection({"title": "Song", "headrace": {"source": "song.wav", "refused": "not_finite"}})
    'not_finite'
    """
    about = content.get("headrace") if isinstance(content, dict) else None
    code = about.get(REFUSED) if isinstance(about, dict) else None
    return code if isinstance(code, str) else None


def counted(codes: Iterable[str]) -> list[tuple[str, int]]:
    """Each code and how often it occurs, the most frequent first, equally frequent ones by name.

    >>> counted(["too_short", "bad_key", "bad_name", "bad_name"])
    [('bad_name', 2), ('bad_key', 1), ('too_short', 1)]
    """
    return sorted(Counter(codes).items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True, order=True)
class Reject:
    """A row of the table of rejects, with what messages need.

    Attributes:
        subject: what is rejected: the path of a file, relative to the source's root; `key …` for a key of `exclude`.
        code: the reason in one word.
        reason: the reason in a sentence.
        is_row: whether it is a row of the user's table, and not a file.
    """

    subject: str
    code: str
    reason: str
    is_row: bool = False


@dataclass(frozen=True, slots=True)
class RejectChanges:
    """Differences between two tables of rejects. Reasons that the YAML asks for (`ASKED_FOR`) are counted apart.

    Attributes:
        new: faults that are only in the later table.
        num_gone: number of faults that are only in the earlier table.
        left_out: recordings that are left out as the YAML asks, only in the later table.
        faults: code → number of faults in the later table, the most frequent first.
        asked_for: code → number of recordings that are left out as the YAML asks, in the later table.
    """

    new: tuple[Reject, ...]
    num_gone: int
    left_out: tuple[Reject, ...]
    faults: dict[str, int]
    asked_for: dict[str, int]


def compare_rejects(before: Iterable[Reject], after: Iterable[Reject]) -> RejectChanges:
    """The differences between two tables of rejects, by subject: another reason for the same subject is not new.

    >>> old, new = Reject("a.wav", "empty", "0 bytes"), Reject("b.wav", "duplicate", "as a.wav")
    >>> changes = compare_rejects([old], [old, new])
    >>> changes.new, changes.left_out == (new,), changes.faults, changes.asked_for
    ((), True, {'empty': 1}, {'duplicate': 1})
    """
    old_faults, old_left_out = _divided(before)
    faults, left_out = _divided(after)
    return RejectChanges(
        new=_others(faults, old_faults),
        num_gone=len({_identity(row) for row in _others(old_faults, faults)}),
        left_out=_others(left_out, old_left_out),
        faults=dict(counted(row.code for row in faults)),
        asked_for=dict(counted(row.code for row in left_out)),
    )


def varied(rows: Iterable[Reject]) -> list[Reject]:
    """Reorder rows: first one of each code, then a second of each, so that the first few differ.

    >>> [row.subject for row in varied(Reject(path, code, "") for path, code in zip("abc", "xxy"))]
    ['a', 'c', 'b']
    """
    seen: Counter[str] = Counter()
    places: list[tuple[int, int, Reject]] = []
    for row in rows:
        places.append((seen[row.code], len(places), row))
        seen[row.code] += 1
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


def _divided(rows: Iterable[Reject]) -> tuple[list[Reject], list[Reject]]:
    """Faults, and rejects that the YAML asks for."""
    found: tuple[list[Reject], list[Reject]] = ([], [])
    for row in rows:
        found[row.code in ASKED_FOR].append(row)
    return found


def _others(rows: Iterable[Reject], known: Iterable[Reject]) -> tuple[Reject, ...]:
    """Rows with a subject that no row of `known` has."""
    subjects = {_identity(row) for row in known}
    return tuple(row for row in rows if _identity(row) not in subjects)


def _identity(row: Reject) -> tuple[bool, str]:
    return row.is_row, row.subject
