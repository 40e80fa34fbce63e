"""Sets of columns for tests: values that functions of the key give, committed by the library's own writer."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.format.beside.column_files import publish_columns
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest
from headrace.format.beside.view_files import partitions_of
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import (
    Manifest,
    ShardEntry,
    commit_manifest,
    newest_manifest,
    newest_manifests,
    parsed_name,
)
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table
from headrace.stores.storage import LocalStorage

Columns = Mapping[str, tuple[str, Callable[[str], Any]]]
"""Name of a column → its kind, and its value for a key."""


def write_columns(output: Path, name: str, columns: Columns, facts: Columns | None = None) -> NumberedSnapshot:
    """`output/columns/<name>` for the newest audio snapshot; the set `metadata` has the facts `key` and `split`."""
    audio, storage = LocalStorage(output / "audio"), LocalStorage(output / "columns" / name)
    snapshot = read_snapshot(audio)
    table = read_table(audio, snapshot.snapshot)
    specs: tuple[ColumnSpec, ...] = ()
    for partition, rows in partitions_of(table):
        split = partition.rpartition("-")[0]
        known = {"key": ("string", lambda key: key), "split": ("string", lambda key, split=split: split)} | dict(
            facts or {}
        )
        entries = []
        for row in range(rows.start, rows.stop):
            index = read_index(audio, table.name(row))
            keys = [index.key(number) for number in range(len(index))]
            made = [_column(column, *given, keys) for column, given in columns.items()]
            if name == "metadata":
                made += [_column(fact, *given, keys, is_fact=True) for fact, given in known.items()]
            specs = tuple(column.spec for column in made)
            place = ShardPlace(split, int(table.bucket[row]), int(parsed_name(table.name(row))["sequence"]))
            made_table = ColumnTable(tuple(made), len(keys), keys_digest(keys), "input")
            file, size = publish_columns(storage, place, made_table)
            entries.append(ShardEntry(file, size, len(keys), 0, 0.0, "input", len(keys)))
        digest = "-".join(entry.name[-20:] for entry in entries)
        commit_manifest(
            storage, Manifest(partition, digest, "s", {}, tuple(entries)), newest_manifest(storage, partition)
        )
    origin = {
        "audio_snapshot": snapshot.number,
        "audio_fingerprint": snapshot.snapshot.fingerprint,
        "set": name,
        "columns": [{"name": spec.name, "kind": spec.kind.value, "is_fact": spec.is_fact} for spec in specs],
    }
    return commit_snapshot(storage, newest_manifests(storage), "catalog", origin)[0]


def _column(name: str, kind: str, value: Callable[[str], Any], keys: list[str], *, is_fact: bool = False) -> Column:
    return Column.of(ColumnSpec(name, ColumnKind(kind), is_fact), [value(key) for key in keys])
