"""Tags, digests and readable failures that all assets share."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from headrace.errors import HeadraceError
from headrace.format.snapshots.snapshots import Snapshot

INPUTS_TAG = "headrace/inputs"
"""Digest of everything that an unpartitioned asset was made from. `build.py` and the sensors compare it."""


@contextmanager
def readable_failures() -> Iterator[None]:
    """Turn a `HeadraceError` into a failure that shows its message without a traceback, and is not retried."""
    try:
        yield
    except HeadraceError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def short_digest(*parts: str) -> str:
    """A digest of strings, 32 characters long, so that it fits into a tag."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def snapshot_inputs(snapshot: Snapshot) -> str:
    """The value of `INPUTS_TAG` of the asset that committed this snapshot."""
    return short_digest(snapshot.digest)
