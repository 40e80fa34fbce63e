"""Rows of `growth` about whole builds: tiny real recordings through the library's own steps, without Dagster.

The rows of one size share a folder, in this order: recordings are written, scanned, built, committed, looked at, and
one of them is changed. The steps are those of `build.py` and of the sensors; Dagster's own share is in
`benchmarks/sensor_ticks.py` and docs/operations.md.
"""

import os
import time
import wave
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import numpy as np

from headrace.catalog.stored.header import read_current_header, read_stamps
from headrace.config.dataset import DatasetConfig
from headrace.format.snapshots.summaries import newest_summaries
from headrace.sources.listing import FileStamp
from headrace.sources.source_changes import GradualListing, source_difference
from headrace.sources.sources import Source, open_source
from headrace.stores.storage import LocalStorage

Figures = dict[str, float]
_RATE_HZ = 8000
_NUM_FRAMES = 400
_SAMPLES_PER_SHARD = 100
_OLD = 1_700_000_000


def recordings(folder: Path, size: dict[str, int]) -> Figures:
    """Writes the recordings, 50 ms of noise each, and the metadata table. No step of a build."""
    lines = ["path,title,speaker"]
    for number in range(size["recordings"]):
        path = _path(number)
        _write(folder / "source" / path, number)
        lines.append(f"{path},a line of text about recording {number},speaker {number % 500}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    return {}


def scan_first(folder: Path, size: dict[str, int]) -> Figures:
    """The first scan: every recording is hashed and probed."""
    return {"files": _scan(folder, size)}


def scan_again(folder: Path, size: dict[str, int]) -> Figures:
    """A scan that finds no change."""
    return {"files": _scan(folder, size)}


def plan(folder: Path, size: dict[str, int]) -> Figures:
    """Which partitions are stale: header and manifests are compared."""
    return {"stale": len(_stale(folder, size))}


def partition_run(folder: Path, size: dict[str, int]) -> Figures:
    """The run of one partition: its part of the catalog is read, its shards are planned and written."""
    return {"built": _build(folder, size, _stale(folder, size)[:1])}


def other_runs(folder: Path, size: dict[str, int]) -> Figures:
    """The runs of all other partitions, one after the other in one process."""
    return {"built": _build(folder, size, _stale(folder, size))}


def commit(folder: Path, size: dict[str, int]) -> Figures:
    """The first snapshot, with the checks that a commit makes."""
    return {"committed": _commit(folder, size)}


def no_op(folder: Path, size: dict[str, int]) -> Figures:
    """A whole build that finds nothing to do: the source is listed, catalog and shards are compared. CPU by step."""
    source = _source(folder)
    cpu = {"listing_cpu": _cpu(lambda: sum(len(chunk) for chunk in source.list()))}
    cpu["scan_cpu"] = _cpu(lambda: _scan(folder, size)) - cpu["listing_cpu"]
    cpu["shards_cpu"] = _cpu(lambda: _check_unchanged(folder, size))
    return cpu


def sensor_tick(folder: Path, size: dict[str, int]) -> Figures:
    """Run a tick of both sensors when nothing has changed: it reads listing, stamps, header and manifests."""
    config, output = _config(folder, size), LocalStorage(folder / "output")
    header, listing = read_current_header(output, config), GradualListing(_source(folder)).go_on(600.0)
    if header is None or listing is None:
        raise SystemExit("no catalog, or no listing")
    found = source_difference(listing, read_stamps(output, header), 0.0, time.time_ns())
    return {"changed": found.is_changed, "stale": len(_stale(folder, size))}


def opening(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """A training job opens the snapshot and takes a first shuffled batch of 16."""
    from headrace import StreamingDataset, World  # noqa: PLC0415 - needs torch

    data = StreamingDataset(
        remote=str(folder / "output/audio"), split=None, batch_size=16, shuffle=True, world=World(0, 1)
    )
    next(iter(data))
    return {"samples": len(data)}


def gc(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """Search for garbage as a gc does. Everything is kept."""
    from headrace.upkeep.gc import find_garbage  # noqa: PLC0415 - imports much

    found = find_garbage(LocalStorage(folder / "output"), keep=1, now_seconds=time.time())
    return {"garbage_files": sum(len(one.entries) for one in found)}


def verify(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """Every shard is read again and compared with its digest and its index."""
    from headrace.verification.shard_check import Depth  # noqa: PLC0415 - imports much
    from headrace.verification.verify import find_target  # noqa: PLC0415 - likewise
    from headrace.verification.verify import verify as checked  # noqa: PLC0415 - likewise

    verdict = checked(find_target(str(folder / "output/audio")), Depth(num_threads=2))
    return {"samples": verdict.num_samples, "faults": len(verdict.faults)}


def one_change(folder: Path, size: dict[str, int]) -> Figures:
    """One recording has changed: scan, the run of its partition, commit."""
    _write(folder / "source" / _path(7), -1)
    _scan(folder, size)
    return {"built": _build(folder, size, _stale(folder, size)), "committed": _commit(folder, size)}


ROWS: dict[str, Callable[[Path, dict[str, int]], Figures]] = {
    "recordings": recordings,
    "scan_first": scan_first,
    "scan_again": scan_again,
    "plan": plan,
    "partition_run": partition_run,
    "other_runs": other_runs,
    "commit": commit,
    "no_op": no_op,
    "sensor_tick": sensor_tick,
    "opening": opening,
    "gc": gc,
    "verify": verify,
    "one_change": one_change,
}


def _scan(folder: Path, size: dict[str, int]) -> int:
    from headrace.catalog.scanning.scan_runtime import ScanRuntime  # noqa: PLC0415 - imports polars
    from headrace.catalog.stored.unchanged import UserTables, refresh_catalog  # noqa: PLC0415 - likewise
    from headrace.catalog.tables.metadata_files import open_metadata  # noqa: PLC0415 - likewise

    config, output, table = _config(folder, size), LocalStorage(folder / "output"), folder / "metadata.csv"
    stamps = {str(table): FileStamp.of(table.stat())}
    tables = UserTables(stamps, lambda: open_metadata(table), frozenset)
    scan, _ = refresh_catalog(config, _source(folder), tables, output, ScanRuntime())
    return scan.num_found


def _check_unchanged(folder: Path, size: dict[str, int]) -> None:
    """Compare the shards with what is wanted, as `build.py` does. Fails if anything has changed."""
    from headrace.assemble.unchanged_shards import unchanged_manifests  # noqa: PLC0415 - imports much
    from headrace.format.snapshots.sizes_file import has_true_sizes  # noqa: PLC0415 - likewise
    from headrace.format.snapshots.snapshots import lost_parts, read_snapshot  # noqa: PLC0415 - likewise

    audio = LocalStorage(folder / "output/audio")
    snapshot = read_snapshot(audio).snapshot
    is_same = unchanged_manifests(audio, _wanted(folder, size), newest_summaries(audio)) is not None
    if not is_same or not has_true_sizes(audio, snapshot) or lost_parts(audio, snapshot):
        raise SystemExit("the build has something to do")


def _cpu(step: Callable[[], object]) -> float:
    """Seconds of CPU that a step takes."""
    start = time.process_time()
    step()
    return round(time.process_time() - start, 3)


def _stale(folder: Path, size: dict[str, int]) -> list[str]:
    from headrace.assemble.staleness import plan_build  # noqa: PLC0415 - imports much

    return list(plan_build(_wanted(folder, size), newest_summaries(LocalStorage(folder / "output/audio"))).stale)


def _wanted(folder: Path, size: dict[str, int]) -> Mapping[str, str]:
    from headrace.assemble.reconcile import wanted_partitions  # noqa: PLC0415 - imports much

    config = _config(folder, size)
    header = read_current_header(LocalStorage(folder / "output"), config)
    if header is None:
        raise SystemExit("no catalog")
    return wanted_partitions(header.fingerprints, config)


def _build(folder: Path, size: dict[str, int], partitions: list[str]) -> int:
    from headrace.assemble.audio import build_partition  # noqa: PLC0415 - imports much
    from headrace.assemble.reconcile import shard_settings  # noqa: PLC0415 - likewise
    from headrace.catalog.stored.parts import partition_recordings  # noqa: PLC0415 - likewise

    config, output, source = _config(folder, size), LocalStorage(folder / "output"), _source(folder)
    with mock.patch.object(os, "fsync"):  # a disk's time is not measured
        for partition in partitions:
            found = partition_recordings(output, config, partition)
            build_partition(partition, found, shard_settings(config), source, output.at("audio"), num_threads=2)
    return len(partitions)


def _commit(folder: Path, size: dict[str, int]) -> bool:
    from headrace.assemble.commit import commit_partitions  # noqa: PLC0415 - imports much

    config, output = _config(folder, size), LocalStorage(folder / "output")
    header = read_current_header(output, config)
    if header is None:
        raise SystemExit("no catalog")
    with mock.patch.object(os, "fsync"):
        return commit_partitions(output.at("audio"), _wanted(folder, size), header.digest)[1]


def _config(folder: Path, size: dict[str, int]) -> DatasetConfig:
    return DatasetConfig(
        name="growth",
        source={"uri": str(folder / "source"), "metadata": str(folder / "metadata.csv"), "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"partitions": {"train": size["partitions"]}, "samples_per_shard": _SAMPLES_PER_SHARD},
        output={"uri": str(folder / "output")},
    )


def _source(folder: Path) -> Source:
    return open_source(folder / "source")


def _path(number: int) -> str:
    return f"{number // 1000:03d}/{number:06d}.wav"


def _write(path: Path, seed: int) -> None:
    """Write a recording whose time is in the past, so that it is settled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed & 0xFFFF_FFFF).integers(-9000, 9000, _NUM_FRAMES, np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE_HZ)
        file.writeframes(noise.tobytes())
    os.utime(path, (_OLD, _OLD + (seed < 0)))
