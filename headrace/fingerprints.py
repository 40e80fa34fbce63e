"""The fingerprint of a set of recordings, from their digests.

Owns the text that is hashed. Needs no table, so that a sensor and a run that builds shards can do without polars.
"""

import hashlib
from collections.abc import Iterable


def combined_digest(digests: Iterable[str]) -> str:
    """The fingerprint of recordings, a partition's or the whole catalog's: SHA-256 (hex) of their digests, one a line.

    Args:
        digests: in rising order. The caller sorts, as it can do that best: a million need not become Python values.
    """
    combined = hashlib.sha256()
    separator = b""
    for digest in digests:
        combined.update(separator + digest.encode())
        separator = b"\n"
    return combined.hexdigest()
