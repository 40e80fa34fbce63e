"""Reads, finds and publishes `.columns` files: one for each audio shard, in the folder of a set of columns."""

import hashlib

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.format.beside.column_table import ColumnSpec, ColumnTable
from headrace.format.indexes.index import COLUMNS_SUFFIX
from headrace.format.manifests.manifests import parsed_name, shard_name
from headrace.format.shards.condemned import condemned_paths, is_condemned
from headrace.format.shards.journal import note_shard
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.snapshots import Snapshot
from headrace.format.typed_json import typed
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage

SPECS_KEY = "columns"
"""The field of a snapshot's `origin` that lists the columns."""


def read_columns(storage: Storage, shard: str) -> ColumnTable:
    """The columns of a shard; read again if they arrive damaged from a store.

    Args:
        storage: the folder of a set of columns.
        shard: file name, such as `train_0003_000012-1a2b3c4d5e6f.columns`.

    Raises:
        NotFoundError: the file does not exist.
        FormatError: it is damaged.
    """
    return read_sound(storage, shard, parse_columns)


def parse_columns(blob: bytes, name: str) -> ColumnTable:
    """The columns in a file whose name holds the digest of its bytes.

    Raises:
        FormatError: it is damaged, or another file has its name.
    """
    table = ColumnTable.from_bytes(blob, name)
    found, wanted = hashlib.sha256(blob).hexdigest(), parsed_name(name.rpartition("/")[2])["digest"]
    if not found.startswith(wanted):
        raise FormatError(
            f"{name}: another file of columns has this name: its bytes have the digest {found[: len(wanted)]}; remove "
            "it, and build again"
        )
    return table


def published_columns(storage: Storage, shard: str, num_bytes: int) -> ColumnTable | None:
    """The columns of a shard whose file is `num_bytes` long; None if the file is missing or damaged."""
    try:
        blob = storage.read(shard)
        return ColumnTable.from_bytes(blob, shard) if len(blob) == num_bytes else None
    except (NotFoundError, FormatError):
        return None


def publish_columns(storage: Storage, place: ShardPlace, table: ColumnTable) -> tuple[str, int]:
    """Write the columns of one shard. Returns the name of the file and its size in bytes.

    A name that a gc has condemned is not used: a salt gives the same content another name.
    """
    condemned = condemned_paths(storage)
    salt = 0
    blob = table.to_bytes()
    while is_condemned(name := _name(place, blob), condemned):
        salt += 1
        blob = table.to_bytes(salt)
    if published_columns(storage, name, len(blob)) is None:
        note_shard(storage, name)
        storage.write(name, blob)
    return name, len(blob)


def specs_of(snapshot: Snapshot) -> tuple[ColumnSpec, ...]:
    """Names and types of the columns of a snapshot; no shard is read.

    Raises:
        ConfigError: it is not a snapshot of a set of columns.
        FormatError: what it says of the columns is invalid.
    """
    listed = snapshot.origin.get(SPECS_KEY)
    if listed is None:
        raise ConfigError("not a snapshot of columns; name a folder columns/NAME of an output")
    try:
        return typed(tuple[ColumnSpec, ...], listed)
    except ValueError as error:
        raise FormatError(f"a snapshot lists invalid columns ({error}); build again") from error


def _name(place: ShardPlace, blob: bytes) -> str:
    return shard_name(
        place.prefix, place.split, place.bucket, place.sequence, hashlib.sha256(blob).hexdigest(), COLUMNS_SUFFIX
    )
