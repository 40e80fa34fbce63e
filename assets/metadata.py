"""What each materialization shows: counts, hours, bytes, tables and pictures.

Owns how library values become Dagster metadata. It reads a few indexes and decodes three samples to draw them, and
computes nothing that another step relies on: what cannot be drawn is said, and nothing fails.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.pictures import Clip, histogram, latents_below_spectrogram, waveforms
from headrace.audit import read_index
from headrace.encoding.plans import AUDIO_SHARD_NOTE
from headrace.encoding.stats import EncodingStats
from headrace.errors import HeadraceError
from headrace.excerpts import read_audio, read_latents
from headrace.index import ShardIndex
from headrace.latents import LatentBuild
from headrace.manifests import Manifest
from headrace.shards import PartitionBuild
from headrace.snapshots import NumberedSnapshot
from headrace.storage import Storage

if TYPE_CHECKING:  # they bring polars, which a code server does without
    import polars as pl

    from headrace.catalog import Scan
    from headrace.smoke import SmokeResult

Metadata = dict[str, Any]  # what Dagster takes: raw values or MetadataValue

_MOST_ROWS = 100
_MOST_PARTITIONS = 20
_CLIPS = 3
_DRAWN_SECONDS = 30


def table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> dg.TableMetadataValue:
    """A table for the UI, cut after 100 rows; `columns` gives each column's type."""
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(
        [dg.TableRecord({name: row[name] for name in columns}) for row in rows[:_MOST_ROWS]], schema
    )


def rejected_table(rejected: "pl.DataFrame") -> dg.TableMetadataValue:
    """Refused files and rows with their reasons."""
    columns = {"path": "string", "code": "string", "reason": "string"}
    return table(rejected.select(list(columns)).head(_MOST_ROWS).to_dicts(), columns)


def catalog_metadata(scan: "Scan", changed: Sequence[str]) -> Metadata:
    """What a scan found and what it touches."""
    recordings = scan.recordings
    reasons = scan.rejected["code"].value_counts(sort=True).rows()
    columns = [dg.TableColumn(name, str(dtype)) for name, dtype in recordings.schema.items()]
    named = ", ".join(changed[:_MOST_PARTITIONS]) + (" …" if len(changed) > _MOST_PARTITIONS else "")
    return {
        "dagster/row_count": recordings.height,
        "dagster/column_schema": dg.TableSchema(columns),
        "found": scan.num_found,
        "recordings": recordings.height,
        "rejected": scan.rejected.height,
        "unsettled": scan.num_unsettled,
        "opened": scan.num_opened,
        "hours": round(float(recordings["duration_seconds"].sum()) / 3600, 4),
        "bytes": int(recordings["num_bytes"].sum()),
        "duplicates": recordings["duplicate_of"].count(),
        "changed_partitions": named or "none",
        "seconds": {name: round(value, 3) for name, value in scan.seconds.items()},
        **({"durations": _markdown(histogram(_sampled(recordings["duration_seconds"])))} if recordings.height else {}),
        **(
            {"rejected_by_reason": _reasons(reasons), "rejected_files": rejected_table(scan.rejected)}
            if reasons
            else {}
        ),
    }


def left_latents(output: Storage, names: Collection[str]) -> Metadata:
    """What lies under `latents/` for no set of these names, as a sentence with the way out; empty without any."""
    sizes: Counter[str] = Counter()
    for entry in output.list("latents/"):
        _, name, *below = entry.path.split("/")
        if below and name not in names:
            sizes[name] += entry.num_bytes
    if not sizes:
        return {}
    found = ", ".join(f"latents/{name} ({num_bytes:,} bytes)" for name, num_bytes in sorted(sizes.items()))
    text = f"{found}: not in the YAML any more; delete to free that, and the old audio that `headrace gc` keeps for it"
    return {"left_behind": dg.MetadataValue.text(text)}


def shards_metadata(storage: Storage, build: PartitionBuild) -> Metadata:
    """What a partition of audio shards holds."""
    manifest = build.manifest.manifest
    shards = [shard.name for shard in manifest.shards if shard.num_samples]
    found = _manifest_metadata(manifest, build)
    if not shards:
        return found
    return {
        **found,
        **_if_readable(lambda: _durations(storage, shards)),
        **_if_readable(lambda: _waveforms(storage, shards[0])),
    }


def latents_metadata(audio: Storage, storage: Storage, build: LatentBuild) -> Metadata:
    """What a partition of latent shards holds, how fast it was encoded, and one of its samples beside its sound."""
    manifest = build.manifest.manifest
    found = {**_manifest_metadata(manifest, build), **(_speed(build.stats) if build.written else {})}
    if not manifest.shards:
        return found
    shard = manifest.shards[0].name
    return {
        **found,
        **_if_readable(lambda: {"dtype": read_index(storage, shard).tensor_dtype}),
        **_if_readable(lambda: _encoded(audio, storage, shard)),
    }


def _speed(stats: EncodingStats) -> Metadata:
    peak = {"gpu_memory_peak_bytes": stats.peak_memory_bytes} if stats.peak_memory_bytes else {}
    return {
        "samples_kept": stats.num_kept,
        "times_real_time": round(stats.times_real_time, 1),
        "padding_share": round(stats.padding_share, 4),
        "device_busy_share": round(stats.busy_share, 4),
        "batches": stats.num_batches,
        "batches_halved": stats.halvings,
        "devices": ", ".join(stats.devices),
        **peak,
    }


def snapshot_metadata(storage: Storage, committed: NumberedSnapshot, *, is_new: bool) -> Metadata:
    """What a snapshot holds, by split."""
    snapshot = committed.snapshot
    rows = [
        {
            "split": split,
            "shards": totals.num_shards,
            "samples": totals.num_samples,
            "hours": round(totals.seconds / 3600, 4),
            "bytes": totals.num_bytes,
        }
        for split, totals in snapshot.splits.items()
    ]
    columns = {"split": "string", "shards": "int", "samples": "int", "hours": "float", "bytes": "int"}
    return {
        "dagster/row_count": snapshot.num_samples,
        "snapshot": committed.number,
        "new": is_new,
        "shards": snapshot.num_shards,
        "samples": snapshot.num_samples,
        "hours": round(sum(totals.seconds for totals in snapshot.splits.values()) / 3600, 4),
        "bytes": sum(totals.num_bytes for totals in snapshot.splits.values()),
        "splits": table(rows, columns),
        "sizes_json": location(storage, "sizes.json"),
    }


def smoke_metadata(results: "Mapping[str, SmokeResult]") -> Metadata:
    """What a smoke test read, how fast, and a row for each shard."""
    rows = [
        {"part": part, **row} for part, result in results.items() for row in result.table.head(_MOST_ROWS).to_dicts()
    ]
    columns = {
        "part": "string",
        "shard": "string",
        **dict.fromkeys(("expected_samples", "samples", "streamed", "faults", "num_frames"), "int"),
    }
    speeds = {name: value for part, result in results.items() for name, value in _smoke_speeds(part, result).items()}
    return {
        "dagster/row_count": sum(result.num_samples for result in results.values()),
        "seconds": round(sum(result.seconds for result in results.values()), 3),
        **speeds,
        "shards": table(rows, columns),
    }


def _smoke_speeds(part: str, result: "SmokeResult") -> Metadata:
    return {
        f"{part} samples per second": round(result.num_samples / max(result.seconds, 1e-9), 1),
        f"{part} streamed samples per second": round(result.num_streamed / max(result.stream_seconds, 1e-9), 1),
        f"{part} seconds to first batch": round(result.stream_seconds_to_first, 3),
        f"{part} read whole": result.is_whole,
    }


def location(storage: Storage, path: str) -> dg.MetadataValue:
    """Where an object lies: a path that the UI can copy, or a URL."""
    local = storage.local_path(path)
    return dg.MetadataValue.path(str(local)) if local is not None else dg.MetadataValue.url(f"{storage.uri}/{path}")


def _manifest_metadata(manifest: Manifest, build: PartitionBuild | LatentBuild) -> Metadata:
    written = set(build.written)
    rows = [
        {
            "shard": shard.name,
            "samples": shard.num_samples,
            "minutes": round(shard.seconds / 60, 3),
            "bytes": shard.num_bytes,
            "written": "now" if shard.name in written else "before",
        }
        for shard in manifest.shards
    ]
    columns = {"shard": "string", "samples": "int", "minutes": "float", "bytes": "int", "written": "string"}
    refused = [{"path": refusal.path, "code": refusal.code, "reason": refusal.reason} for refusal in manifest.refused]
    return {
        "dagster/row_count": manifest.num_samples,
        "manifest": build.manifest.number,
        "samples": manifest.num_samples,
        "refused": len(refused),
        "hours": round(sum(shard.seconds for shard in manifest.shards) / 3600, 4),
        "bytes": sum(shard.num_bytes for shard in manifest.shards),
        "shards_written": len(build.written),
        "shards_reused": len(build.reused),
        "shards": table(rows, columns),
        **({"refused_files": table(refused, dict.fromkeys(("path", "code", "reason"), "string"))} if refused else {}),
    }


def _if_readable(draw: Callable[[], Metadata]) -> Metadata:
    """What is drawn; or, where a shard cannot be read, an entry `pictures` that says which one, why, and the way out.

    A picture is for people. Whether the data is sound is for the smoke test and `headrace verify` to say.
    """
    try:
        return draw()
    except HeadraceError as error:
        return {"pictures": dg.MetadataValue.text(f"not drawn: {error}")}


def _durations(storage: Storage, shards: Sequence[str]) -> Metadata:
    """A histogram over the partition."""
    indexes = [read_index(storage, shard) for shard in shards]
    seconds = [float(value) for index in indexes for value in index.num_frames / index.sample_rate_hz.clip(1)]
    return {"durations": _markdown(histogram(seconds))}


def _waveforms(storage: Storage, shard: str) -> Metadata:
    """The first samples of a shard."""
    index = read_index(storage, shard)
    clips = [clip for i in range(min(_CLIPS, len(index))) if (clip := _clip(storage, index, i)) is not None]
    return {"waveforms": _markdown(waveforms(clips))}


def _clip(storage: Storage, index: ShardIndex, i: int) -> Clip | None:
    samples = read_audio(storage, index, i, _DRAWN_SECONDS)
    return None if samples is None else Clip(index.key(i), samples[0], int(index.sample_rate_hz[i]))


def _encoded(audio: Storage, storage: Storage, shard: str) -> Metadata:
    """The latents of a shard's longest sample below the spectrogram of its audio."""
    index = read_index(storage, shard)
    longest, rate_hz = int(index.num_frames.argmax()), index.latent_rate_hz
    clip = _clip(audio, read_index(audio, index.notes[AUDIO_SHARD_NOTE]), longest)
    hidden = read_latents(storage, index, longest, 1 + _DRAWN_SECONDS * rate_hz)
    if clip is None or hidden is None:
        return {}
    return {"latents": _markdown(latents_below_spectrogram(clip, hidden, rate_hz))}


def _reasons(counts: Sequence[tuple[Any, ...]]) -> dg.TableMetadataValue:
    return table([{"code": code, "count": count} for code, count in counts], {"code": "string", "count": "int"})


def _sampled(values: "pl.Series") -> list[float]:
    return [float(value) for value in values.head(100_000)]


def _markdown(text: str) -> dg.MetadataValue:
    return dg.MetadataValue.md(text)
