"""Computes the cost of one petabyte of audio from measured unit costs: `python benchmarks/petabyte.py`.

`--measure` measures the unit costs that no other benchmark records (scan, FLAC, index, decoding for encoders, CREPE on
the CPU) on clips of 5 s cut from the demo's music, and writes them to `benchmarks/results/petabyte.json`. Without it,
the table of `docs/scaling.md` is computed from that file and from the results of `growth.py` and `growth_catalog.py`.
CPU seconds are those of one core of the machine that measured. Nothing here was run at this size.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CLIP_SECONDS = 10.0
TOTAL_SECONDS = 2e10
SAMPLES_PER_SHARD = 1_000
PARTITIONS = 4_000
LONG_SECONDS = 3_600.0
GET_DOLLARS, PUT_DOLLARS = 0.4e-6, 5e-6  # the list price of a large store, per request; a LIST costs as much as a PUT
LISTED_PER_REQUEST = 1_000
LIST_SECONDS = 0.03
RUN_CPU_SECONDS = 0.5  # of Dagster, on SQLite: docs/operations.md
_PIECE_BYTES = 16 << 20
_WHOLE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Measured costs.

    Attributes:
        scan_file_s: CPU seconds to list, open and decide about one file, without its bytes.
        scan_mb_s: CPU seconds to hash a megabyte (10⁶ bytes).
        build_s: CPU seconds to decode, encode, write and digest one second of audio.
        audio_bytes: bytes of FLAC for one second of audio, 44.1 kHz, mono, 16 bits.
        index_bytes: bytes of index for a sample.
        decode_s: CPU seconds to read, decode and resample one second of audio for an encoder.
        crepe_s: CPU seconds of CREPE (tiny) for one second of audio.
    """

    scan_file_s: float
    scan_mb_s: float
    build_s: float
    audio_bytes: float
    index_bytes: float
    decode_s: float
    crepe_s: float


@dataclass(frozen=True, slots=True)
class Growth:
    """Unit costs from the results of other benchmarks, at their largest size.

    Attributes:
        row_cpu_s: CPU seconds of a scan that changes nothing, for each row of the catalog.
        row_memory_bytes: memory of that scan for each row.
        row_bytes: bytes of the catalog for each row.
        manifest_bytes: bytes of manifests for each shard.
        key_bytes: bytes of planned keys for each sample.
        table_bytes: bytes of the table of shards for each shard.
        sizes_bytes: bytes of `sizes.json` for each shard.
        commit_cpu_s: CPU seconds of a commit of one new shard, for each shard of the folder.
        gc_memory_bytes: memory of a gc for each shard.
    """

    row_cpu_s: float
    row_memory_bytes: float
    row_bytes: float
    manifest_bytes: float
    key_bytes: float
    table_bytes: float
    sizes_bytes: float
    commit_cpu_s: float
    gc_memory_bytes: float


def growth_of(catalog: dict[str, Any], manifests: dict[str, Any]) -> Growth:
    """The unit costs in the JSON of `growth_catalog.py` and of `growth.py`."""
    count = max(map(int, catalog["recordings"]))
    steps = catalog["recordings"][str(count)]
    rows = {(row["row"], row["shards"]): row for row in manifests["rows"] if "shards" in row}
    shards = max(shards for _, shards in rows)
    written, one, gc = (rows[name, shards] for name in ("write", "commit_one_shard", "gc_names"))
    return Growth(
        row_cpu_s=steps["scan_again"]["cpu_seconds"] / count,
        row_memory_bytes=(steps["scan_again"]["peak_mb"] - steps["scan_again"]["imports_mb"]) * 2**20 / count,
        row_bytes=steps["scan_first"]["written_bytes"] / count,
        manifest_bytes=written["manifest_bytes"] / shards,
        key_bytes=written["keys_bytes"] / shards / written["samples_per_shard"],
        table_bytes=35.0,
        sizes_bytes=one["sizes_bytes"] / shards,
        commit_cpu_s=one["cpu_s"] / shards,
        gc_memory_bytes=gc["growth_mb"] * 2**20 / shards,
    )


def estimate(unit: UnitCosts, growth: Growth, recording_seconds: float) -> dict[str, str]:
    """Name of a cost → its amount, for recordings of this many seconds that become clips of 10 s."""
    recordings = TOTAL_SECONDS / recording_seconds
    samples = TOTAL_SECONDS / CLIP_SECONDS
    shards = samples / SAMPLES_PER_SHARD
    source_bytes = TOTAL_SECONDS * unit.audio_bytes
    size = source_bytes / recordings
    gets = 2 * recordings * (size / _PIECE_BYTES if size > _WHOLE_BYTES else 1)
    puts, lists = 2 * shards, recordings / LISTED_PER_REQUEST
    dollars = gets * GET_DOLLARS + (puts + lists) * PUT_DOLLARS
    scan = recordings * unit.scan_file_s + source_bytes / 1e6 * unit.scan_mb_s + recordings * growth.row_cpu_s
    return {
        "recordings; clips of 10 s; shards of 1,000 clips": "; ".join(map(_number, (recordings, samples, shards))),
        "bytes of audio; a shard": f"{_bytes(source_bytes)}; {_bytes(source_bytes / shards)}",
        "partitions, each one run; shards and CPU of a run": f"{PARTITIONS:,}; {shards / PARTITIONS:,.0f}; "
        f"{_hours(TOTAL_SECONDS * unit.build_s / PARTITIONS)}",
        "CPU of the first scan (of that, hashing)": f"{_hours(scan)} ({_hours(source_bytes / 1e6 * unit.scan_mb_s)})",
        "CPU of all audio shards": _hours(TOTAL_SECONDS * unit.build_s),
        "CPU that Dagster's runs add, on SQLite": _hours(PARTITIONS * RUN_CPU_SECONDS),
        "CPU that decodes for encoders": _hours(TOTAL_SECONDS * unit.decode_s),
        "CPU of CREPE (tiny) without GPUs": _hours(TOTAL_SECONDS * unit.crepe_s),
        "GPUs that 16 cores each can feed: hours, at least": _hours(TOTAL_SECONDS * unit.decode_s / 16),
        "GETs; PUTs; LISTs of a first build": f"{_number(gets)}; {_number(puts)}; {_number(lists)}",
        "their price": f"{dollars:,.0f} $",
        "catalog; memory of the process that scans": f"{_bytes(recordings * growth.row_bytes)}; "
        f"**{_bytes(recordings * growth.row_memory_bytes)}**",
        "indexes; planned keys": f"{_bytes(samples * unit.index_bytes)}; {_bytes(samples * growth.key_bytes)}",
        "manifests; table of shards; `sizes.json`": f"{_bytes(shards * growth.manifest_bytes)}; "
        f"{_bytes(shards * growth.table_bytes)}; {_bytes(shards * growth.sizes_bytes)}",
        "memory of a gc": _bytes(shards * growth.gc_memory_bytes),
        "one changed file: listing, at 30 ms a page": _seconds(lists * LIST_SECONDS),
        "one changed file: CPU of the scan": _seconds(recordings * growth.row_cpu_s),
        "one changed file: CPU of its shard": _seconds(SAMPLES_PER_SHARD * CLIP_SECONDS * unit.build_s),
        "one changed file: CPU of the commit": _seconds(shards * growth.commit_cpu_s),
    }


def table() -> str:
    """The table of `docs/scaling.md`, in Markdown."""
    unit = UnitCosts(**_read("petabyte")["units"])
    growth = growth_of(_read("growth_catalog"), _read("growth"))
    hours, clips = estimate(unit, growth, LONG_SECONDS), estimate(unit, growth, CLIP_SECONDS)
    lines = ["| | recordings of an hour | recordings of 10 s |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {hours[name]} | {clips[name]} |" for name in hours)])


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def _number(value: float) -> str:
    return (
        f"{value / 1e9:.3g} billion"
        if value >= 1e9
        else f"{value / 1e6:.3g} million"
        if value >= 1e6
        else f"{value:,.0f}"
    )


def _bytes(value: float) -> str:
    for name, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e3:.3g} kB"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.0f} h" if seconds >= 36_000 else f"{seconds / 3600:.1f} h"


def _seconds(seconds: float) -> str:
    if seconds >= 36_000:
        return f"{seconds / 3600:,.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.2g} s"


def measure(num_clips: int) -> UnitCosts:
    """The unit costs of this machine."""
    from build import SETTINGS, make_clips, recordings, scan  # noqa: PLC0415 - the table needs no audio
    from headrace.assemble.audio import build_partition  # noqa: PLC0415
    from headrace.config.partitioning import Partitioning  # noqa: PLC0415
    from headrace.sources.sources import open_source  # noqa: PLC0415
    from headrace.stores.storage import LocalStorage  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        work, output = Path(folder), LocalStorage(Path(folder) / "output")
        source = work / "source"
        num_bytes = sum(path.stat().st_size for path in make_clips(source, num_clips))
        seconds = 5.0 * num_clips
        layout = Partitioning({"train": 1.0}, {"train": 1}, 50)
        scanned = _cpu(lambda: scan(source, output, layout))
        (found,) = recordings(output).values()
        shards = output.at("audio")
        built = _cpu(lambda: build_partition("train-0000", found, SETTINGS, open_source(source), shards, num_threads=2))
        stored = sum(entry.num_bytes for entry in shards.list() if entry.path.endswith(".tar"))
        indexes = sum(entry.num_bytes for entry in shards.list() if entry.path.endswith(".idx"))
        hashed = _cpu(lambda: [_hash(path) for path in source.iterdir()])
        decoded, encoded = _encoder_costs(sorted(source.iterdir())[: max(1, num_clips // 5)])
    return UnitCosts(
        scan_file_s=max(0.0, scanned - hashed) / num_clips,
        scan_mb_s=hashed / num_bytes * 1e6,
        build_s=built / seconds,
        audio_bytes=stored / seconds,
        index_bytes=indexes / num_clips,
        decode_s=decoded / (5.0 * max(1, num_clips // 5)),
        crepe_s=encoded / (5.0 * max(1, num_clips // 5)),
    )


def _encoder_costs(paths: list[Path]) -> tuple[float, float]:
    """CPU seconds to decode and resample these clips for CREPE, and of the network on them."""
    import numpy as np  # noqa: PLC0415
    import soundfile as sf  # noqa: PLC0415
    import soxr  # noqa: PLC0415
    import torch  # noqa: PLC0415

    from headrace.encoders import load  # noqa: PLC0415

    clips: list[np.ndarray] = []

    def decode() -> None:
        for path in paths:
            samples, rate = sf.read(path, dtype="float32")
            clips.append(soxr.resample(samples, rate, 16_000))

    decoded = _cpu(decode)
    encoder = load("crepe", {"hop_seconds": 0.02})
    audio = torch.from_numpy(np.stack(clips))[:, None]
    lengths = torch.full((len(clips),), audio.shape[-1], dtype=torch.int64)
    with torch.inference_mode():
        return decoded, _cpu(lambda: encoder.encode(audio, lengths))


def _hash(path: Path) -> str:
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def main() -> None:
    """Measure if asked, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure the unit costs of this machine first")
    parser.add_argument("--clips", type=int, default=300)
    options = parser.parse_args()
    if options.measure:
        result = {
            "hardware": {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0))},
            "clips": options.clips,
            "units": asdict(measure(options.clips)),
        }
        (RESULTS / "petabyte.json").write_text(json.dumps(result, indent=1) + "\n")
    print(table())


if __name__ == "__main__":
    main()
