"""Why files and rows are refused, in one word each: what the catalog and the manifests say under `code`.

Owns the words and counting them. Sentences for people are made where the fault is seen.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum


class Reject(StrEnum):
    """Why the catalog refuses a file or a row, beside the reasons that `headrace.audio` gives."""

    TOO_SHORT = "too_short"
    DUPLICATE_KEY = "duplicate_key"
    BAD_KEY = "bad_key"
    METADATA_WITHOUT_FILE = "metadata_without_file"
    DUPLICATE_METADATA = "duplicate_metadata"
    OUTSIDE_ROOT = "outside_root"
    UNREADABLE = "unreadable"
    BAD_NAME = "bad_name"


class Origin(StrEnum):
    """What a row of the rejected table is about."""

    FILE = "file"
    """A file that the scan refused: counts as found."""
    METADATA = "metadata"
    """A row of the user's table."""
    DECODE = "decode"
    """A recording of the catalog whose fault showed when it was decoded."""


def counted(codes: Iterable[str]) -> list[tuple[str, int]]:
    """How often each code comes, the most frequent first, equal ones by name.

    >>> counted(["too_short", "bad_key", "bad_name", "bad_name"])
    [('bad_name', 2), ('bad_key', 1), ('too_short', 1)]
    """
    return sorted(Counter(codes).items(), key=lambda item: (-item[1], item[0]))
