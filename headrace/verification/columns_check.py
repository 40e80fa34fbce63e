"""Reads a whole `.columns` file and compares it with its name, and with the keys of the audio shard that it fits."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from headrace.errors import HeadraceError
from headrace.format.beside.column_table import Column, ColumnTable, keys_digest
from headrace.format.manifests.manifests import parsed_name
from headrace.locate.shard_list import LocatedShard
from headrace.stores.refetch import sources

_DIGEST_LENGTH = 12  # hex digits of the digest in a shard's name


def check_columns(shard: LocatedShard) -> tuple[int, int, list[str]]:
    """Read a whole file of columns; in a store, a damaged one is read again before its faults are reported.

    Returns:
        Number of rows, number of bytes, and what is wrong with the file.
    """
    assert shard.storage is not None  # a snapshot names it
    attempts = sources(shard.storage)
    found = _read(replace(shard, storage=next(attempts)))
    while found[2] and (source := next(attempts, None)) is not None:
        found = _read(replace(shard, storage=source))
    return found


def _read(shard: LocatedShard) -> tuple[int, int, list[str]]:
    assert shard.storage is not None  # see `check_columns`
    try:
        blob = shard.storage.read(shard.name)
        faults = list(_faults_of_digest(shard.name, blob))
        table = ColumnTable.from_bytes(blob, shard.name)
        faults += _faults_of_values(table)
    except HeadraceError as error:
        return 0, 0, [str(error)]
    if shard.num_samples is not None and len(table) != shard.num_samples:
        faults.append(f"{len(table)} rows, its list says {shard.num_samples}")
    return len(table), len(blob), [*faults, *_faults_of_keys(shard, table)]


def _faults_of_digest(name: str, blob: bytes) -> Iterator[str]:
    found, digest = hashlib.sha256(blob).hexdigest(), parsed_name(name)["digest"]
    if not found.startswith(digest):
        yield (
            f"the bytes have the digest {found[:_DIGEST_LENGTH]}, the name says {digest}: the file was changed; remove "
            "it, and build again"
        )


def _faults_of_values(table: ColumnTable) -> Iterator[str]:
    """Values that cannot be read."""
    for column in table.columns:
        try:
            column.take(range(len(column)))
        except ValueError as error:  # text that is not UTF-8, or not JSON
            yield f"column {column.spec.name!r}, row {_unreadable(column)}: {error}; remove the file, and build again"


def _unreadable(column: Column) -> int:
    for row in range(len(column)):
        try:
            column.value(row)
        except ValueError:
            return row
    return len(column)


def _faults_of_keys(shard: LocatedShard, table: ColumnTable) -> Iterator[str]:
    """Whether the rows are those of the audio shard, if that is known; a fault of its index is reported there."""
    if shard.fits is None:
        return
    try:
        index = shard.fits.index()
    except HeadraceError:
        return
    if index is not None and keys_digest(index.keys()) != table.keys_sha256:
        yield f"its rows are not those of the samples of {shard.fits.name}; remove the file, and build again"
