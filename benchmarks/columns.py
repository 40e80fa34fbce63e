"""A new column over an existing data set: `python benchmarks/columns.py [--samples 100000]`.

The data set is synthetic: a catalog of recordings that are never opened, and shards of 50 samples whose audio members
are a few bytes, because columns read indexes and no audio. A table with a caption, a score and a list for each sample
is imported, joined and committed; then one caption changes; then nothing. Bytes are those of all files that a step
wrote, as a share of what the data set would have with real clips of ten seconds: one shard of such clips, cut from the
demo's recordings, is built in the forms that the table names. A full rebuild is this shard's time, times the number of
shards. Prints a table and writes JSON with the hardware.
"""

import argparse
import itertools
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import soundfile as sf

from headrace.assemble.audio import build_partition
from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.assemble.column_tables import import_table
from headrace.assemble.shard_settings import ShardSettings
from headrace.audio import AudioFormat
from headrace.catalog.rows.schemas import FILE_SCHEMA
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.storing import PartWriter
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.config.content import ColumnSetConfig
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import ShardSize
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.manifests.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    split_of,
)
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.snapshots.commits import commit_snapshot
from headrace.sources.listing import Listing
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage

SAMPLES_PER_SHARD = 50
PARTITIONS = 20
SECONDS = 10.0
DEMO = Path("datasets/demo/recordings")
FORMS = {
    "FLAC 44.1 kHz mono": AudioFormat(sample_rate_hz=44_100, num_channels=1, bits_per_sample=16),
    "FLAC 16 kHz mono": AudioFormat(sample_rate_hz=16_000, num_channels=1, bits_per_sample=16),
}
_MTIME_NS = 10**18
_WORDS = [
    "a",
    "slow",
    "piano",
    "melody",
    "over",
    "distant",
    "rain",
    "with",
    "soft",
    "voices",
    "and",
    "low",
    "drums",
    "in",
    "a",
    "large",
    "empty",
    "hall",
    "at",
    "night",
]


@dataclass(frozen=True, slots=True)
class Form:
    """Sizes and time of one shard of real clips of ten seconds."""

    shard_bytes: int
    cpu_seconds: float


class Listed:
    """A source of files that are never opened: a scan knows them all."""

    uri = "listed"

    def __init__(self, count: int) -> None:
        self._count = count

    def list(self) -> Iterator[Listing]:
        """All files at once."""
        none: list[Any] = [None] * self._count
        paths = [f"{number:08d}.wav" for number in range(self._count)]
        yield Listing(paths, [100_000] * self._count, [_MTIME_NS] * self._count, none, none)


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/columns.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-columns-") as folder:
        forms = {name: real_shard(Path(folder) / name.replace(" ", "-"), audio) for name, audio in FORMS.items()}
        steps = measured(Path(folder), options.samples)
    content = {
        "hardware": {
            "cpus": len(os.sched_getaffinity(0)),
            "machine": platform.machine(),
            "python": platform.python_version(),
        },
        "samples": options.samples,
        "samples_per_shard": SAMPLES_PER_SHARD,
        "partitions": PARTITIONS,
        "clip_seconds": SECONDS,
        "steps": steps,
        "full_rebuild": {name: full(form, options.samples, steps) for name, form in forms.items()},
    }
    show(content)
    options.output.write_text(json.dumps(content, indent=1) + "\n")


def measured(folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Seconds, bytes and files of each step over a data set of this many samples."""
    output, config = LocalStorage(folder / "output"), config_of(folder)
    catalog_of(output, config, count)
    write_audio(output)
    audio = state_of(folder / "output/audio")
    keys = existing_catalog(output).recordings(["key"])["key"].to_list()
    captions = [
        " ".join(itertools.islice(itertools.cycle(_WORDS), i % 19, i % 19 + 14)) + f" {i}" for i in range(count)
    ]
    table = pl.DataFrame({
        "key": keys,
        "caption": captions,
        "snr": [i % 977 / 13 for i in range(count)],
        "tags": [[_WORDS[i % 20], _WORDS[i % 7]] for i in range(count)],
    })  # fmt: skip
    entry = ColumnSetConfig(name="captions", table="captions.parquet")

    def joined(rows: pl.DataFrame, stamp: int) -> Callable[[], None]:
        def act() -> None:
            import_table(existing_catalog(output), config, entry, stamp, lambda: TableInMemory(rows))
            bring_columns_up_to_date(output, config, "captions")

        return act

    changed = table.with_columns(
        caption=pl.when(pl.col("key") == keys[count // 2]).then(pl.lit("new")).otherwise("caption")
    )
    steps = {
        "new columns": cost(folder, joined(table, 1)),
        "one caption changed": cost(folder, joined(changed, 2)),
        "nothing changed": cost(folder, joined(changed, 2)),
        "set metadata": cost(folder, lambda: bring_columns_up_to_date(output, config)),
    }
    if state_of(folder / "output/audio") != audio:
        raise SystemExit("an audio file was touched")
    return steps


def cost(folder: Path, act: Callable[[], object]) -> dict[str, float]:
    """Seconds of a step, and the files that it wrote."""
    before, began, used = state_of(folder / "output"), time.perf_counter(), time.process_time()
    act()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    written = {path: found for path, found in state_of(folder / "output").items() if before.get(path) != found}
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "written_bytes": sum(size for size, _ in written.values()),
        "written_files": len(written),
        "columns_files": sum(path.endswith(".columns") for path in written),
        "columns_bytes": sum(size for path, (size, _) in written.items() if path.endswith(".columns")),
    }


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of all files."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def config_of(folder: Path) -> DatasetConfig:
    """A data set of one split."""
    return DatasetConfig(
        name="bench",
        source={"uri": "x", "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"partitions": {"train": PARTITIONS}, "samples_per_shard": SAMPLES_PER_SHARD},
        output={"uri": str(folder / "output")},
    )


def catalog_of(output: LocalStorage, config: DatasetConfig, count: int) -> None:
    """A catalog of recordings that were never opened."""
    facts = {
        "path": [f"{number:08d}.wav" for number in range(count)],
        "num_bytes": [100_000] * count,
        "mtime_ns": [_MTIME_NS] * count,
        "sha256": [f"{number:064x}" for number in range(count)],
        "container": ["WAV"] * count,
        "subtype": ["PCM_16"] * count,
        "num_frames": [int(SECONDS * 44_100)] * count,
        "sample_rate_hz": [44_100] * count,
        "num_channels": [1] * count,
        "bits_per_sample": [16] * count,
    }
    PartWriter(output, {}, "1").table("train-0000.files", pl.DataFrame(facts, schema=FILE_SCHEMA))
    update_catalog(config, Listed(count), None, output, ScanRuntime(probe_version=lambda: "1"))


def write_audio(output: LocalStorage) -> None:
    """Shards of tiny members and their snapshot."""
    storage, manifests = output.at("audio"), {}
    for partition, rows in existing_catalog(output).partitions():
        keys, entries = [recording.key for recording in recordings_of(rows)], []
        for sequence, start in enumerate(range(0, len(keys), SAMPLES_PER_SHARD)):
            entries.append(tiny_shard(storage, partition, sequence, keys[start : start + SAMPLES_PER_SHARD]))
        manifest = Manifest(partition, "wanted", "source", {"samples_per_shard": SAMPLES_PER_SHARD}, tuple(entries))
        manifests[partition] = commit_manifest(storage, manifest, None)
    known: dict[str, NumberedManifest] = manifests
    commit_snapshot(storage, known, "catalog", {})


def tiny_shard(storage: Any, partition: str, sequence: int, keys: list[str]) -> ShardEntry:  # noqa: ANN401
    """A shard with an index, whose samples say that they are ten seconds long."""
    frames = int(SECONDS * 44_100)
    with ShardWriter(storage, ShardPlace(split_of(partition), bucket_of(partition), sequence)) as writer:
        for key in keys:
            writer.add(key, {"flac": (b"flac", 4), "json": (b"{}", 2)}, SampleEntry(key, {}, frames, 44_100, 1))
        index = writer.publish(f"{partition} {sequence}", {})
    return ShardEntry(
        index.shard,
        index.num_bytes,
        len(index),
        frames * len(index),
        SECONDS * len(index),
        index.input_digest,
        len(index),
    )


def real_shard(folder: Path, audio: AudioFormat) -> Form:
    """One shard of 50 clips of ten seconds that are cut from the demo's recordings, built on one thread."""
    source = folder / "source"
    source.mkdir(parents=True)
    number = 0
    for path in itertools.cycle(sorted(DEMO.rglob("*.*"))):
        if path.suffix not in {".flac", ".wav", ".ogg", ".mp3"}:
            continue
        samples, rate_hz = sf.read(path, always_2d=True)
        wanted = int(SECONDS * rate_hz)
        clip = np.resize(samples, (wanted, samples.shape[1]))  # a short sound is repeated until it is long enough
        sf.write(source / f"{number:03d}.wav", clip, rate_hz, subtype="PCM_16")
        number += 1
        if number == SAMPLES_PER_SHARD:
            break
    output = LocalStorage(folder / "output")
    config = DatasetConfig(
        name="bench",
        source={"uri": str(source), "settle_seconds": 0},
        splits={"train": 1.0},
        output={"uri": output.uri},
    )
    update_catalog(config, open_source(source), None, output)
    recordings = recordings_of(existing_catalog(output).recordings())
    settings, began = ShardSettings(audio, ShardSize(SAMPLES_PER_SHARD)), time.process_time()
    built = build_partition("train-0000", recordings, settings, open_source(source), output.at("audio"), num_threads=1)
    (shard,) = built.manifest.manifest.shards
    return Form(shard.num_bytes, time.process_time() - began)


def full(form: Form, count: int, steps: dict[str, dict[str, float]]) -> dict[str, float]:
    """Extrapolate to the whole data set: its size and cost in this form, and those of the new columns in relation."""
    num_shards = count / SAMPLES_PER_SHARD
    num_bytes = form.shard_bytes * num_shards
    new = steps["new columns"]
    return {
        "bytes": round(num_bytes),
        "cpu_seconds": round(form.cpu_seconds * num_shards, 1),
        "new_columns_share_of_bytes": round(new["written_bytes"] / num_bytes, 6),
        "new_columns_share_of_cpu_seconds": round(new["cpu_seconds"] / (form.cpu_seconds * num_shards), 6),
    }


def show(content: dict[str, Any]) -> None:
    """Print the tables."""
    print(f"{content['samples']:,} samples, {PARTITIONS} partitions, {SAMPLES_PER_SHARD} samples per shard")
    print(f"{'step':<24}{'seconds':>9}{'CPU s':>9}{'MB written':>12}{'files':>8}{'.columns':>10}")
    for step, found in content["steps"].items():
        megabytes = found["written_bytes"] / 1e6
        print(
            f"{step:<24}{found['seconds']:>9.2f}{found['cpu_seconds']:>9.2f}{megabytes:>12.2f}"
            f"{found['written_files']:>8}{found['columns_files']:>10}"
        )
    for name, found in content["full_rebuild"].items():
        print(
            f"{name}: {found['bytes'] / 1e9:.1f} GB, {found['cpu_seconds']:.0f} CPU seconds to build; the new "
            f"columns are {found['new_columns_share_of_bytes']:.3%} of the bytes, and "
            f"{found['new_columns_share_of_cpu_seconds']:.2%} of the time"
        )


if __name__ == "__main__":
    main()
