"""What all assets share when they speak to Dagster: names for the UI, tags, and errors that a person can read."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from headrace.errors import HeadraceError
from headrace.snapshots import Snapshot

OWNER = "team:audio-data"
DATA_VERSION_TAG = "dagster/data_version"
INPUTS_TAG = "headrace/inputs"
"""Digest of all that an unpartitioned asset was made from: `build.py` compares it to know that nothing changed."""


@contextmanager
def readable_failures() -> Iterator[None]:
    """Turn our own errors, whose message says everything, into a failure without a traceback to read through."""
    try:
        yield
    except HeadraceError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def versions_by_partition(instance: dg.DagsterInstance, key: dg.AssetKey, kind: dg.DagsterEventType) -> dict[str, str]:
    """The data version that the instance knows last of every partition of an asset, by one query."""
    found = instance.event_log_storage.get_latest_tags_by_partition(key, kind, [DATA_VERSION_TAG])
    return {partition: tags[DATA_VERSION_TAG] for partition, tags in found.items() if DATA_VERSION_TAG in tags}


def short_digest(*parts: str) -> str:
    """A digest of strings that fits a tag."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def snapshot_inputs(snapshot: Snapshot) -> str:
    """What the index asset that committed a snapshot says under `INPUTS_TAG`."""
    return short_digest(snapshot.to_json().decode())
