"""What a tick of the sensors costs at 100,000 recordings in 1,000 partitions: seconds and memory, by kind of tick.

The source is real (empty files with the times that the catalog says), catalog, manifests and Dagster events are written
directly: no audio is needed to look at it. Prints a table and writes JSON.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # assets, resources, sensors from the checkout

from assets.catalog import source_inputs
from assets.events import INPUTS_TAG
from assets.factory import build_definitions
from assets.keys import DatasetKeys
from headrace.audio import codec_version
from headrace.catalog import Catalog
from headrace.catalog_files import CATALOG_PATH, write_catalog
from headrace.catalog_tables import RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.config import DatasetConfig, load_config
from headrace.manifests import Manifest, ShardEntry, commit_manifest
from headrace.reconcile import wanted_partitions
from resources.storage import StorageResource
from sensors.factory import build_automation

NAME = "bench"
ROUNDS = 5
_SECONDS = 5.0
_RATE_HZ = 44_100
_TITLES = 40


@dataclass(frozen=True)
class Cost:
    """One kind of tick: medians over the rounds, and the highest memory of any."""

    tick: str
    said: str
    seconds: float
    most_seconds: float
    growth_mb: float
    peak_mb: float


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(Path(folder), options.recordings, options.partitions)
    print(f"{options.recordings:,} recordings, {options.partitions:,} partitions; bars: 2 s, 200 MB more than at rest")
    print(f"{'tick':<46}{'median s':>10}{'most s':>10}{'growth MB':>11}{'peak MB':>9}  what it said")
    for cost in costs:
        times = f"{cost.seconds:>10.3f}{cost.most_seconds:>10.3f}"
        print(f"{cost.tick:<46}{times}{cost.growth_mb:>11.0f}{cost.peak_mb:>9.0f}  {cost.said}")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    hardware = {
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    content = {"hardware": hardware, **vars(options), "ticks": [vars(cost) for cost in costs]}
    (results / "sensors.json").write_text(json.dumps(content, indent=1) + "\n")


def measure(folder: Path, num_recordings: int, num_partitions: int) -> list[Cost]:
    """All kinds of ticks over one data set."""
    config = write_config(folder, num_partitions)
    catalog = write_source(folder, config, num_recordings)
    (folder / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "home")) as instance:
        write_partitions(config, catalog, instance)
        definitions = dg.Definitions.merge(build_definitions([config]), build_automation([config]))
        ticks = Ticks(definitions, instance)
        quiet_source = ticks.run(f"{NAME}_source_changes", None).cursor
        touched = folder / "recordings/000/000000.wav"
        costs = [
            ticks.cost("source_changes, no change", f"{NAME}_source_changes", quiet_source),
            ticks.cost("source_changes, cursor lost", f"{NAME}_source_changes", None),
            ticks.cost("stale_partitions, up to date but for the end", f"{NAME}_stale_partitions", None),
        ]
        os.utime(touched, (1, 1))
        costs.append(ticks.cost("source_changes, one file changed", f"{NAME}_source_changes", quiet_source))
        write_catalog(StorageResource().output(config), _other_digests(catalog))
        costs.append(ticks.cost("stale_partitions, all partitions stale", f"{NAME}_stale_partitions", None))
        return costs


class Ticks:
    """Evaluates sensors in this process, as a code server does."""

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.definitions = definitions
        self.instance = instance
        self.sensors = {sensor.name: sensor for sensor in definitions.sensors or ()}

    def run(self, name: str, cursor: str | None):  # noqa: ANN201 - Dagster's own
        """One tick."""
        context = dg.build_sensor_context(
            instance=self.instance, cursor=cursor, definitions=self.definitions, sensor_name=name
        )
        return self.sensors[name].evaluate_tick(context)

    def cost(self, tick: str, name: str, cursor: str | None) -> Cost:
        """Time and memory of a tick."""
        rounds = [_measured(lambda: self.run(name, cursor)) for _ in range(ROUNDS)]
        seconds, growth, peak = zip(*rounds, strict=True)
        result = self.run(name, cursor)
        said = f"{len(result.run_requests)} runs" if result.run_requests else (result.skip_message or "")[:40]
        return Cost(tick, said, statistics.median(seconds), max(seconds), max(growth), max(peak))


def _measured(work: Callable[[], object]) -> tuple[float, float, float]:
    """Seconds, growth of resident memory at its highest, and that height, in MB."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    before = _memory_mb("VmRSS")
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    peak = _memory_mb("VmHWM")
    return seconds, peak - before, peak


def _memory_mb(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def write_config(folder: Path, num_partitions: int) -> DatasetConfig:
    """The data set's YAML."""
    content = {
        "source": {"uri": str(folder / "recordings")},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": num_partitions}},
        "output": {"uri": str(folder / "output")},
    }
    (folder / f"{NAME}.yaml").write_text(yaml.safe_dump(content))
    return load_config(folder / f"{NAME}.yaml")


def write_source(folder: Path, config: DatasetConfig, count: int) -> Catalog:
    """The files, and the catalog that a scan would have made of them."""
    paths = [f"{i // 1000:03d}/{i:06d}.wav" for i in range(count)]
    for path in paths:
        file = folder / "recordings" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, ns=(10**18, 10**18))
    facts = {
        "key": [path[4:10] for path in paths],
        "path": paths,
        "sha256": [f"{i:064x}" for i in range(count)],
        "num_bytes": [0] * count,
        "mtime_ns": [10**18] * count,
        "container": ["wav"] * count,
        "subtype": ["PCM_16"] * count,
        "num_frames": [round(_SECONDS * _RATE_HZ)] * count,
        "sample_rate_hz": [_RATE_HZ] * count,
        "num_channels": [1] * count,
        "bits_per_sample": [16] * count,
        "duration_seconds": [_SECONDS] * count,
        "duplicate_of": [None] * count,
        "recording_digest": [f"{i:032x}" for i in range(count)],
    }
    user = {f"title {i}": [f"a line of metadata {i} {path}" for path in paths] for i in range(3)}
    recordings = pl.DataFrame(facts, schema=RECORDING_SCHEMA).with_columns(pl.DataFrame(user))
    catalog = Catalog(recordings, pl.DataFrame(schema=REJECTED_SCHEMA), codec_version())
    write_catalog(StorageResource().output(config), catalog)
    assert (folder / "output" / CATALOG_PATH).exists()
    return catalog


def _other_digests(catalog: Catalog) -> Catalog:
    """The same recordings, all with another content."""
    recordings = catalog.recordings.with_columns(pl.col("recording_digest").str.replace("^.", "f"))
    return Catalog(recordings, catalog.rejected, catalog.probe_version)


def write_partitions(config: DatasetConfig, catalog: Catalog, instance: dg.DagsterInstance) -> None:
    """Manifests of all partitions, as built from the catalog, and the events that Dagster has of them."""
    audio, key = StorageResource().audio(config), DatasetKeys(config.name).audio_shards
    samples = catalog.recordings.height // len(config.layout().partition_keys())
    scanned = {INPUTS_TAG: source_inputs(config, StorageResource())}
    instance.report_runless_asset_event(dg.AssetMaterialization(DatasetKeys(config.name).catalog, tags=scanned))
    for number, (partition, wanted) in enumerate(wanted_partitions(catalog.recordings, config).items()):
        keys = tuple(f"{number:04d}_{i:06d}_with_a_name" for i in range(samples))
        shards = tuple(
            ShardEntry(
                f"train_{number:04d}_{i:06d}-{i:012x}.tar", 10**7, 50, 10**7, 250.0, f"{i:064x}", keys[i * 50 :][:50]
            )
            for i in range(-(-samples // 50))
        )
        manifest = Manifest(partition, wanted, "", {"samples_per_shard": 50}, shards)
        commit_manifest(audio, manifest, None)
        tags = {"dagster/data_version": manifest.digest}
        instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, tags=tags))


def _shard(bucket: int, sequence: int, keys: tuple[str, ...]) -> ShardEntry:
    name = f"train_{bucket:04d}_{sequence:06d}-{sequence:012x}.tar"
    return ShardEntry(name, 10**7, len(keys), 10**7, _SECONDS * len(keys), f"{sequence:064x}", keys)


if __name__ == "__main__":
    main()
