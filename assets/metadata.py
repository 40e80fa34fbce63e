"""Dagster metadata of each materialization: counts, hours, bytes, tables and pictures.

Reads a few indexes and decodes up to three samples to draw them. No other step depends on the results: a picture that
cannot be drawn is reported as missing, and the asset does not fail.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from headrace.assemble.build_reasons import Settings, why_build
from headrace.assemble.latents import LatentSettings
from headrace.assemble.shard_settings import ShardSettings
from headrace.assemble.update import PartitionBuild
from headrace.audio import Codec
from headrace.encoding.plans import AUDIO_SHARD_NOTE, DTYPE_NOTE
from headrace.encoding.stats import EncodingStats
from headrace.errors import HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.rejects import Reject, varied
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import Storage
from headrace.upkeep.left_behind import left_behind, left_behind_text
from headrace.verification.excerpts import read_audio, read_latents
from headrace_dagster.assets.catalog_columns import catalog_schema
from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.assets.output_metadata import outputs_metadata
from headrace_dagster.assets.partition_pictures import AudioToDraw, histogram, latents_below_spectrogram, waveforms

if TYPE_CHECKING:  # they bring polars, which a code server does without
    import polars as pl

    from headrace.catalog.compared.changes import CatalogChanges
    from headrace.catalog.scanning.scan import Scan
    from headrace.smoke.run import SmokeResult

REASON = "path: reason"
"""The column of every table of rejects."""

Metadata = dict[str, Any]  # what Dagster takes: raw values or MetadataValue

_MOST_ROWS = 100
_MOST_PARTITIONS = 20
_CLIPS = 3
_HISTOGRAM_SHARDS = 4  # whose indexes are read for the picture, however many shards a partition has
_DRAWN_SECONDS = 30


def table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> dg.TableMetadataValue:
    """A table for the UI with at most 100 rows; `columns` gives each column's type."""
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(
        [dg.TableRecord({name: row[name] for name in columns}) for row in rows[:_MOST_ROWS]], schema
    )


def rejected_table(rejected: "pl.DataFrame") -> dg.TableMetadataValue:
    """Rejected files and rows with their reasons."""
    return _reasons(rejected.select("path", "reason").head(_MOST_ROWS).iter_rows())


def refused_table(refused: Sequence[ManifestRejection]) -> dg.TableMetadataValue:
    """Rejects of a manifest with their reasons: recordings, or samples without latents, these with their keys."""
    if not any(refusal.key for refusal in refused):
        return _reasons((refusal.path, refusal.reason) for refusal in refused)
    names = ("key", "path", "code")
    rows = [
        {REASON: f"{refusal.path}: {refusal.reason}", **{name: getattr(refusal, name) for name in names}}
        for refusal in refused
    ]
    return table(rows, dict.fromkeys((REASON, *names), "string"))


def _reasons(found: Iterable[tuple[str, str]]) -> dg.TableMetadataValue:
    """A table with one wide column: the web interface cuts the last of several columns to a few letters."""
    return table([{REASON: f"{path}: {reason}"} for path, reason in found], {REASON: "string"})


def catalog_metadata(scan: "Scan", changes: "CatalogChanges", partitions: Sequence[str]) -> Metadata:
    """Numbers of a scan, what is new since the scan before, and the partitions whose recordings changed."""
    figures, new = scan.figures, changes.rejects.new
    reasons = scan.rejected["code"].value_counts(sort=True).rows()
    named = ", ".join(partitions[:_MOST_PARTITIONS]) + (" …" if len(partitions) > _MOST_PARTITIONS else "")
    tables = {"rejected_table": rejected_table(scan.rejected), "rejected_codes_table": codes_table(reasons)}
    return {
        **({"rejected_new_table": _new_rejects(new)} if new else {}),  # first: what somebody may have to act on
        **(tables if reasons else {}),
        "dagster/row_count": scan.num_recordings,
        "dagster/column_schema": catalog_schema(scan.schema),
        "files_found": scan.num_found,
        "files_opened": scan.num_opened,
        "files_resumed": scan.num_resumed,
        "files_unsettled": scan.num_unsettled,
        "files_added": len(changes.added),
        "files_changed": len(changes.changed),
        "files_removed": len(changes.removed),
        "recordings_with_other_metadata": len(changes.described),
        "rejected": scan.rejected.height,
        "rejected_new": len(new),
        "rejected_gone": changes.rejects.num_gone,
        "audio_hours": round(figures.seconds / 3600, 4),
        "source_bytes": figures.num_bytes,
        "duplicates": figures.num_duplicates,
        "merged_rows": scan.num_merged_rows,
        "rows_left_out": scan.num_left_out_rows,
        "files_left_out": scan.num_left_out_files,
        "cut_rows": scan.num_cut_rows,
        "files_of_other_path_forms": scan.num_other_paths,
        "sidecars_without_recording": scan.num_sidecars_alone,
        "changed_partitions": named or "none",
        **{f"{step}_seconds": round(value, 3) for step, value in scan.seconds.items()},
        **({"durations_picture": _markdown(histogram(figures.durations))} if figures.durations else {}),
    }


def left_folders(output: Storage, names: Collection[str]) -> Metadata:
    """Sets of latents and columns, and views, that the YAML does not name, and how to remove them; empty without any.

    Args:
        output: the output of the data set.
        names: the parts that the YAML names, such as `latents/crepe`.
    """
    sizes = {part.name: part.num_bytes for part in left_behind(output, names)}
    text = left_behind_text(sizes, output.uri, "NAME.yaml")
    return {"left_behind": dg.MetadataValue.text(text)} if sizes else {}


def shards_metadata(storage: Storage, build: PartitionBuild, settings: ShardSettings) -> Metadata:
    """Numbers and pictures of a partition of audio shards, and why it was built."""
    manifest = build.manifest.manifest
    shards = [shard.name for shard in manifest.shards if shard.num_samples]
    found = {**_manifest_metadata(build, settings), **build.audio.named()}
    if settings.audio.codec is Codec.COPY:
        found |= _if_readable(lambda: _codecs(storage, shards))
    if not shards:
        return found
    return {
        **found,
        **_if_readable(lambda: _pictures(storage, _spread(shards, _HISTOGRAM_SHARDS))),
    }


def _codecs(storage: Storage, shards: Sequence[str]) -> Metadata:
    """Number of samples in these shards by extension: with `codec: copy`, it shows which were written as FLAC."""
    counts: Counter[str] = Counter()
    for index in (read_index(storage, shard) for shard in shards):
        counts.update(index.audio_counts)
    return {f"samples_{extension}": count for extension, count in sorted(counts.items())}


def latents_metadata(audio: Storage, storage: Storage, build: PartitionBuild, settings: LatentSettings) -> Metadata:
    """Numbers of a partition of latent shards, how fast it was encoded, and a picture of one sample."""
    manifest = build.manifest.manifest
    found = {**_manifest_metadata(build, settings), **(_speed(build.stats) if build.written else {})}
    if not manifest.shards:
        return found
    shard = manifest.shards[0].name
    return {
        **found,
        **_if_readable(lambda: {"dtype": read_index(storage, shard).note(DTYPE_NOTE)}),
        **_if_readable(lambda: _encoded(audio, storage, shard)),
        **_if_readable(lambda: outputs_metadata(storage, read_index(storage, shard))),
    }


def _speed(stats: EncodingStats) -> Metadata:
    peak = {"gpu_memory_peak_bytes": stats.peak_memory_bytes} if stats.peak_memory_bytes else {}
    alone = {"independent_of_batch": f"{stats.alone.key}: {stats.alone}"} if stats.alone else {}
    return {
        "samples_kept": stats.num_kept,
        **({"texts_encoded": stats.num_texts} if stats.num_texts else {}),
        "times_real_time": round(stats.times_real_time, 1),
        "padding_share": round(stats.padding_share, 4),
        "device_busy_share": round(stats.busy_share, 4),
        "batches": stats.num_batches,
        **{f"waited_for_{cause}_seconds": round(seconds, 1) for cause, seconds in sorted(stats.waits.items())},
        "batches_halved": stats.halvings,
        "devices": ", ".join(stats.devices),
        **alone,
        **peak,
    }


def snapshot_metadata(storage: Storage, committed: NumberedSnapshot, *, is_new: bool) -> Metadata:
    """Numbers of a snapshot, by split."""
    snapshot = committed.snapshot
    rows = [
        {
            "split": split,
            "shards": totals.num_shards,
            "samples": totals.num_samples,
            "audio_hours": round(totals.seconds / 3600, 4),
            "shard_bytes": totals.num_bytes,
        }
        for split, totals in snapshot.splits.items()
    ]
    columns = {"split": "string", "shards": "int", "samples": "int", "audio_hours": "float", "shard_bytes": "int"}
    return {
        "dagster/row_count": snapshot.num_samples,
        "snapshot": committed.number,
        "is_new": is_new,
        "shards": snapshot.num_shards,
        "audio_hours": round(sum(totals.seconds for totals in snapshot.splits.values()) / 3600, 4),
        "shard_bytes": sum(totals.num_bytes for totals in snapshot.splits.values()),
        "splits_table": table(rows, columns),
        "sizes_json": location(storage, "sizes.json"),
    }


def smoke_metadata(results: "Mapping[str, SmokeResult]") -> Metadata:
    """Samples that a smoke test read and its speed, with a table row for each shard."""
    rows = [
        {"part": part, **row} for part, result in results.items() for row in result.table.head(_MOST_ROWS).to_dicts()
    ]
    columns = {
        "part": "string",
        "shard": "string",
        **dict.fromkeys(("expected_samples", "rejected", "samples", "streamed", "faults", "num_frames"), "int"),
    }
    speeds = {name: value for part, result in results.items() for name, value in _smoke_speeds(part, result).items()}
    return {
        "dagster/row_count": sum(result.num_samples for result in results.values()),
        "reading_seconds": round(sum(result.seconds for result in results.values()), 3),
        **speeds,
        "shards_table": table(rows, columns),
    }


def _smoke_speeds(part: str, result: "SmokeResult") -> Metadata:
    name = part_name(part)
    return {
        f"{name}_shards": result.num_shards,
        f"{name}_shards_read": result.table.height,
        f"{name}_shards_new": result.num_new,
        f"{name}_samples_per_second": round(result.num_samples / max(result.seconds, 1e-9), 1),
        f"{name}_streamed_samples_per_second": round(result.num_streamed / max(result.stream_seconds, 1e-9), 1),
        f"{name}_first_batch_seconds": round(result.stream_seconds_to_first, 3),
        **({f"{name}_samples_with_latents": result.num_joined} if result.num_joined else {}),
        **({f"{name}_encoded_again": _markdown(markdown_list(result.encoded))} if result.encoded else {}),
    }


def part_name(part: str) -> str:
    """The prefix of a part's metadata names: `audio`, `latents_crepe`."""
    return part.replace(" ", "_")


def location(storage: Storage, path: str) -> dg.MetadataValue:
    """The location of an object: a path that the UI can copy, or a URL."""
    local = storage.local_path(path)
    return dg.MetadataValue.path(str(local)) if local is not None else dg.MetadataValue.url(f"{storage.uri}/{path}")


def _manifest_metadata(build: PartitionBuild, settings: Settings) -> Metadata:
    manifest, written = build.manifest.manifest, set(build.written)
    before = {shard.name for shard in build.previous.shards} if build.previous else set()
    why = why_build(build.previous, manifest.source, settings, is_damaged=not written.isdisjoint(before))
    rows = [
        {
            "shard": shard.name,
            "samples": shard.num_samples,
            "audio_seconds": round(shard.seconds, 3),
            "shard_bytes": shard.num_bytes,
            "written": "now" if shard.name in written else "before",
        }
        for shard in manifest.shards
    ]
    columns = {"shard": "string", "samples": "int", "audio_seconds": "float", "shard_bytes": "int", "written": "string"}
    return {
        **({"rejected_table": refused_table(manifest.refused)} if manifest.refused else {}),
        "partition": f"{manifest.partition}: all numbers on this page are of this partition alone",
        "dagster/row_count": manifest.num_samples,
        "manifest": build.manifest.number,
        "why": ", ".join(why) or "unchanged",
        "rejected": len(manifest.refused),
        "audio_hours": round(sum(shard.seconds for shard in manifest.shards) / 3600, 4),
        "shard_bytes": sum(shard.num_bytes for shard in manifest.shards),
        "shards": len(manifest.shards),
        "shards_written": len(build.written),
        "shards_reused": len(build.reused),
        "shards_removed": len(before - {shard.name for shard in manifest.shards}),
        "shards_table": table(rows, columns),
    }


def _if_readable(draw: Callable[[], Metadata]) -> Metadata:
    """The result of `draw`, or `pictures_missing` with the error if a shard cannot be read.

    Pictures do not decide whether an asset fails: the smoke test and `headrace verify` check the data.
    """
    try:
        return draw()
    except HeadraceError as error:
        return {"pictures_missing": dg.MetadataValue.text(f"not drawn: {error}")}


def _pictures(storage: Storage, shards: Sequence[str]) -> Metadata:
    """A histogram of the durations of these shards' samples, and the waveforms of the first samples."""
    indexes = [read_index(storage, shard) for shard in shards]
    seconds = [float(value) for index in indexes for value in index.num_frames / index.sample_rate_hz.clip(1)]
    drawn = {"durations_picture": _markdown(histogram(seconds))}
    return {**drawn, **_if_readable(lambda: _waveforms(storage, indexes[0]))}


def _waveforms(storage: Storage, index: ShardIndex) -> Metadata:
    """The waveforms of the first samples of a shard."""
    clips = [clip for i in range(min(_CLIPS, len(index))) if (clip := _clip(storage, index, i)) is not None]
    return {"waveforms_picture": _markdown(waveforms(clips))}


def _spread(shards: Sequence[str], most: int) -> Sequence[str]:
    """The first shard and others at equal distances, at most this many."""
    return shards[:: -(-len(shards) // most)]


def _clip(storage: Storage, index: ShardIndex, i: int) -> AudioToDraw | None:
    samples = read_audio(storage, index, i, _DRAWN_SECONDS)
    return None if samples is None else AudioToDraw(index.key(i), samples[0], int(index.sample_rate_hz[i]))


def _encoded(audio: Storage, storage: Storage, shard: str) -> Metadata:
    """The latents of a shard's longest sample below the spectrogram of its audio."""
    index = read_index(storage, shard)
    longest, rate_hz = int(index.num_frames.argmax()), index.latent_rate_hz
    if not rate_hz:  # vectors have no time, see `outputs_metadata`
        return {}
    clip = _clip(audio, read_index(audio, index.note(AUDIO_SHARD_NOTE)), longest)
    hidden = read_latents(storage, index, longest, 1 + _DRAWN_SECONDS * rate_hz)
    if clip is None or hidden is None:
        return {}
    return {"latents_picture": _markdown(latents_below_spectrogram(clip, hidden, rate_hz))}


def _new_rejects(new: Sequence[Reject]) -> dg.TableMetadataValue:
    """A table of new rejects, with one of each code first."""
    return _reasons((row.subject, row.reason) for row in varied(new))


def codes_table(counts: Sequence[tuple[Any, ...]]) -> dg.TableMetadataValue:
    """A table of codes, and how many rejects have each."""
    return table([{"code": code, "count": count} for code, count in counts], {"code": "string", "count": "int"})


def _markdown(text: str) -> dg.MetadataValue:
    return dg.MetadataValue.md(text)
