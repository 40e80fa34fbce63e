"""Writes sets of columns for small data sets, as a build does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.format.beside.column_files import SPECS_KEY, publish_columns
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest
from headrace.format.manifests.manifests import Manifest, ShardEntry, commit_manifest, newest_manifest, newest_manifests
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import Clip

Values = Mapping[ColumnSpec, Callable[[Clip], Any]]


def spec(name: str, kind: str, *, is_fact: bool = False) -> ColumnSpec:
    return ColumnSpec(name, ColumnKind(kind), is_fact)


def write_columns(  # noqa: PLR0913 - a helper of tests
    folder: Path,
    name: str,
    values: Values,
    samples: Mapping[str, Sequence[Clip]],
    audio: NumberedSnapshot,
    *,
    per_shard: int = 5,
) -> NumberedSnapshot:
    """`folder/columns/<name>` for a snapshot of the audio, committed."""
    storage = LocalStorage(folder / "columns" / name)
    for split, chosen in samples.items():
        entries = []
        for number, start in enumerate(range(0, len(chosen), per_shard)):
            clips = chosen[start : start + per_shard]
            columns = tuple(Column.of(one, [value(clip) for clip in clips]) for one, value in values.items())
            table = ColumnTable(columns, len(clips), keys_digest(clip.key for clip in clips), "input")
            file, num_bytes = publish_columns(storage, ShardPlace(split, 0, number), table)
            entries.append(ShardEntry(file, num_bytes, len(clips), 0, 0.0, "input", len(clips)))
        digest = "-".join(entry.name for entry in entries)
        manifest = Manifest(f"{split}-0000", digest, "s", {}, tuple(entries))
        commit_manifest(storage, manifest, newest_manifest(storage, f"{split}-0000"))
    origin = {
        "audio_snapshot": audio.number,
        "audio_fingerprint": audio.snapshot.fingerprint,
        "set": name,
        SPECS_KEY: [asdict(one) for one in values],
    }
    return commit_snapshot(storage, newest_manifests(storage), "catalog", origin)[0]
