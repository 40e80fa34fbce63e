"""Builds from Parquet, beside a build from the same files in a folder: CPU seconds, bytes read and memory.

    python benchmarks/parquet_builds.py [--clips 3000] [--partitions 4] [--rounds 3] [--json PATH]

The clips are FLAC of 60 to 100 kB. They are in three Parquet files with row groups of 100 and of 1,000 rows, as pyarrow
writes them, and as the writer of Hugging Face's `datasets` sets it up (pages of 1 MB, a page index). Each build is a
process of its own; the forms take turns. The scan is made before, and its seconds are listed apart. Needs pyarrow.
"""

import argparse
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from _process import bytes_read, peak_mb

from headrace.assemble.audio import build_partition
from headrace.assemble.reconcile import shard_settings
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig, parse_config
from headrace_dagster.resources.storage import StorageResource

_HUB = {"write_page_index": True, "use_content_defined_chunking": True}
_FORMS: dict[str, tuple[int, dict[str, Any]]] = {
    "pyarrow 100": (100, {}),
    "pyarrow 1000": (1000, {}),
    "hub 100": (100, _HUB),
    "hub 1000": (1000, _HUB),
}
_FOLDER, _FILES, _RATE_HZ = "folder", 3, 16_000


def main() -> None:
    """Make the corpora, measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=3000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/parquet_builds.json"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # one step, in a process of its own
    given = parser.parse_args()
    if given.one:
        folder, form, step = given.one
        print(json.dumps(measured(Path(folder), form, step, given.partitions)))
        return
    with tempfile.TemporaryDirectory(prefix="headrace-parquet-") as folder:
        write(Path(folder), given.clips)
        forms = [_FOLDER, *_FORMS]
        scans = {form: apart(folder, form, "scan", given.partitions) for form in forms}
        rounds = [{form: apart(folder, form, "build", given.partitions) for form in forms} for _ in range(given.rounds)]
    base = statistics.median(one[_FOLDER]["cpu_seconds"] for one in rounds)
    for form in forms:
        cpu = [one[form]["cpu_seconds"] for one in rounds]
        ratio, row = statistics.median(cpu) / base, rounds[-1][form]
        print(f"{form:<14}{ratio:>6.2f}  CPU {cpu}  {row['megabytes_read']:>7,.0f} MB read  {row['peak_mb']:>5.0f} MB")
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "load": round(os.getloadavg()[0], 1)}
    arguments = {"clips": given.clips, "partitions": given.partitions}
    given.json.write_text(
        json.dumps({"machine": machine, **arguments, "scans": scans, "rounds": rounds}, indent=1) + "\n"
    )


def apart(folder: str, form: str, step: str, num_partitions: int) -> dict[str, float]:
    """Figures of a step in a process of its own."""
    words = [sys.executable, __file__, "--partitions", str(num_partitions), "--one", folder, form, step]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def write(folder: Path, num_clips: int) -> None:
    """Write the clips in all forms."""
    clips = [clip(number) for number in range(num_clips)]
    (folder / _FOLDER).mkdir()
    for number, content in enumerate(clips):
        (folder / _FOLDER / f"utt-{number:05}.flac").write_bytes(content)
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for form, (rows, options) in _FORMS.items():
        (folder / form).mkdir()
        for file in range(_FILES):
            numbers = range(file * num_clips // _FILES, (file + 1) * num_clips // _FILES)
            values = [{"bytes": clips[number], "path": f"utt-{number:05}.flac"} for number in numbers]
            table = pa.table({"audio": pa.array(values, audio), "text": [f"line {number}" for number in numbers]})
            pq.write_table(table, folder / form / f"train-{file}.parquet", row_group_size=rows, **options)


def clip(number: int) -> bytes:
    """FLAC of noise, which does not become smaller."""
    random, file = np.random.default_rng(number), io.BytesIO()
    noise = random.integers(-30_000, 30_000, random.integers(30_000, 50_000), np.int16)
    soundfile.write(file, noise, _RATE_HZ, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def measured(folder: Path, form: str, step: str, num_partitions: int) -> dict[str, float]:
    """Figures of a scan, or of the build of all partitions."""
    kind = {} if form == _FOLDER else {"kind": "parquet"}
    content = {
        "source": {"settle_seconds": 0, "uri": str(folder / form), **kind},
        "splits": {"train": 1.0},
        "shards": {"samples_per_shard": 250, "partitions": {"train": num_partitions}},
        "output": {"uri": str(folder / f"out {form}")},
    }
    config, storage = parse_config(content, "bench", folder / "bench.yaml"), StorageResource(root=str(folder))
    used, read = time.process_time(), bytes_read()
    (scan if step == "scan" else build)(config, storage)
    return {
        "cpu_seconds": round(time.process_time() - used, 2),
        "megabytes_read": round((bytes_read() - read) / 1e6),
        "peak_mb": peak_mb(),
    }


def scan(config: DatasetConfig, storage: StorageResource) -> None:
    """Scan the source."""
    update_catalog(config, storage.source(config), storage.metadata(config), storage.output(config))


def build(config: DatasetConfig, storage: StorageResource) -> None:
    """Build all partitions."""
    shutil.rmtree(Path(config.output.uri, "audio"), ignore_errors=True)
    source, settings = storage.source(config), shard_settings(config)
    for partition in config.partitioning().partition_keys():
        rows = partition_recordings(storage.output(config), config, partition)
        build_partition(partition, rows, settings, source, storage.audio(config), num_threads=2)


if __name__ == "__main__":
    main()
