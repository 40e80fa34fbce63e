"""Building FLAC shards against the limit: `python benchmarks/build.py [--clips 600] [--rounds 5] [--noop 100000]`.

Clips of 5 s, 44.1 kHz mono, 16 bit, cut from the demo's recordings. Interleaved rounds of: the limit (libsndfile
encodes the same audio on all cores, from WAV files or from ready arrays; nothing is written), the shortest loop that
writes tars, and `build_partition` with reading, tar, digests and indexes, on an existing catalog. Peak memory is that
of a child process, at two corpus sizes. The no-op build is timed in its parts. Ratios are given by the clock and by CPU
time, which other work on the machine disturbs less. Prints tables and writes JSON with the hardware.
"""

import argparse
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import soundfile as sf

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.assemble.staleness import plan_build
from headrace.audio import AudioFormat, codec_version
from headrace.catalog.rows.recordings import Recording
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.format.manifests.manifests import newest_manifests
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage

RATE_HZ = 44_100
NUM_FRAMES = 5 * RATE_HZ
DEMO = Path("datasets/demo/recordings")
SETTINGS = ShardSettings(AudioFormat(), ShardSize(50))
ONE = Partitioning({"train": 1.0}, {"train": 1}, 50)
LIMIT = "limit: read WAV, encode, drop"


@dataclass(slots=True)
class Timing:
    """Each round of one system."""

    clips_per_second: list[float] = field(default_factory=list)
    cpu_ms_per_clip: list[float] = field(default_factory=list)


def make_clips(folder: Path, num_clips: int) -> list[Path]:
    """Clips cut from the demo's music at places that their number gives, so all differ."""
    track = np.concatenate([_mono(path) for path in sorted(DEMO.rglob("*.*")) if path.suffix in {".flac", ".wav"}])
    folder.mkdir(parents=True)
    paths = []
    for number in range(num_clips):
        start = int(np.random.default_rng(number).integers(0, len(track) - NUM_FRAMES))
        paths.append(folder / f"{number:06d}.wav")
        sf.write(paths[-1], track[start : start + NUM_FRAMES], RATE_HZ, subtype="PCM_16")
    return paths


def _mono(path: Path) -> np.ndarray:
    samples, rate = sf.read(path, dtype="int16", always_2d=True)
    return samples[:, 0] if rate == RATE_HZ else samples[:0, 0]


def encode(path: Path) -> bytes:
    """Encode one recording: the least work of any writer."""
    samples, rate = sf.read(path, dtype="int16")
    return encode_samples(samples, rate)


def encode_samples(samples: np.ndarray, rate: int = RATE_HZ) -> bytes:
    """Libsndfile's FLAC, level 5."""
    file = io.BytesIO()
    sf.write(file, samples, rate, format="FLAC", subtype="PCM_16", compression_level=5 / 8)
    return file.getvalue()


def loop_with_tars(paths: Sequence[Path], folder: Path, num_threads: int) -> None:
    """The shortest loop: threads encode, this one writes tars of 50; no digest, no index, no catalog."""
    with ThreadPoolExecutor(num_threads) as pool:
        waiting = deque((path, pool.submit(encode, path)) for path in paths[:16])
        archive = None
        for number, path in enumerate(paths):
            if number % 50 == 0:
                archive = (folder / f"{number:06d}.tar").open("wb")
            _, future = waiting.popleft()
            if number + 16 < len(paths):
                waiting.append((paths[number + 16], pool.submit(encode, paths[number + 16])))
            for name, data in (("flac", future.result()), ("json", json.dumps({"path": path.name}).encode())):
                info = tarfile.TarInfo(f"{path.stem}.{name}")
                info.size = len(data)
                archive.write(info.tobuf() + data + bytes(-len(data) % 512))


def scan(source: Path, output: LocalStorage, layout: Partitioning) -> None:
    """Make or update the catalog."""
    opened = open_source(source)
    settings = {"uri": opened.uri, "settle_seconds": 0}
    config = DatasetConfig(
        name="bench",
        source=settings,
        splits=dict(layout.splits),
        shards={"partitions": dict(layout.partitions)},
        output={"uri": output.uri},
    )
    update_catalog(config, opened, None, output)


def recordings(output: LocalStorage) -> dict[str, list[Recording]]:
    """The catalog's recordings by partition."""
    return {name: recordings_of(rows) for name, rows in existing_catalog(output).partitions()}


def build(source: Path, catalog: LocalStorage, output: LocalStorage, num_threads: int) -> None:
    """One partition of all clips, from an existing catalog."""
    (found,) = recordings(catalog).values()
    build_partition("train-0000", found, SETTINGS, open_source(source), output, num_threads=num_threads)


def measure_throughput(work: Path, num_clips: int, num_rounds: int, num_threads: int) -> dict[str, Timing]:
    """All systems, in turn, several times; the order turns from round to round."""
    paths = make_clips(work / "source", num_clips)
    catalog = LocalStorage(work / "catalog")
    scan(work / "source", catalog, ONE)
    ready = [sf.read(path, dtype="int16")[0] for path in paths[:100]]

    def limit(one: Callable[..., bytes], items: Sequence[object]) -> None:
        with ThreadPoolExecutor(num_threads) as pool:
            for _ in pool.map(one, items):
                pass

    systems: dict[str, Callable[[Path], object]] = {
        LIMIT: lambda _: limit(encode, paths),
        "limit: encode ready arrays, drop": lambda _: limit(encode_samples, [ready[n % 100] for n in range(num_clips)]),
        "shortest loop with tars": lambda folder: loop_with_tars(paths, folder, num_threads),
        "headrace": lambda folder: build(work / "source", catalog, LocalStorage(folder), num_threads),
    }
    timings = {name: Timing() for name in systems}
    names = list(systems)
    for round_ in range(num_rounds + 1):
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                clock, cpu = time.perf_counter(), time.process_time()
                systems[name](Path(folder))
                clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            if round_:  # the first one warms caches
                timings[name].clips_per_second.append(num_clips / clock)
                timings[name].cpu_ms_per_clip.append(cpu / num_clips * 1e3)
    return timings


def measure_memory(work: Path, num_clips: int, num_threads: int) -> dict[str, float]:
    """Peak memory of a process that only builds; the corpus is hard links, so that it needs no disk."""
    source = work / f"links{num_clips}"
    distinct = sorted((work / "source").iterdir())
    source.mkdir()
    for number in range(num_clips):
        (source / f"{number:06d}.wav").hardlink_to(distinct[number % len(distinct)])
    scan(source, LocalStorage(work / f"catalog{num_clips}"), ONE)
    command = [sys.executable, __file__, "--child", str(work), str(num_clips), str(num_threads)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def child(work: Path, num_clips: int, num_threads: int) -> None:
    """Build and say how much memory it took, MiB: before the build, and at its peak."""
    before = peak_mib()
    with tempfile.TemporaryDirectory(dir=work) as folder:
        build(
            work / f"links{num_clips}",
            LocalStorage(work / f"catalog{num_clips}"),
            LocalStorage(Path(folder)),
            num_threads,
        )
    print(json.dumps({"num_clips": num_clips, "imports_mib": before, "peak_mib": peak_mib()}))


def peak_mib() -> float:
    """The most memory that this process ever held; `ru_maxrss` would count its parent's too, from before the exec."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def measure_noop(work: Path, num_samples: int, num_threads: int) -> dict[str, float]:
    """A build with nothing to do, in its parts, in seconds; all samples are one tiny recording under many names."""
    source, output = work / "tiny", LocalStorage(work / "tiny-output")
    for number in range(num_samples):
        path = source / f"{number // 1000:04d}" / f"{number:06d}.wav"
        if number % 1000 == 0:
            path.parent.mkdir(parents=True)
        if number == 0:
            sf.write(path, np.zeros(50, np.int16), 8000)
        elif number % 10_000 == 0:  # a file has a limited number of links
            path.write_bytes((source / "0000/000000.wav").read_bytes())
        else:
            path.hardlink_to(source / f"{number // 10_000 * 10:04d}" / f"{number // 10_000 * 10_000:06d}.wav")
    layout = Partitioning({"train": 0.9, "validation": 0.05, "test": 0.05}, {"train": 8}, 50)
    first = time.perf_counter()
    scan(source, output, layout)
    for name, found in recordings(output).items():
        build_partition(name, found, SETTINGS, open_source(source), output.at("audio"), num_threads=num_threads)
    _commit(output)
    first = time.perf_counter() - first
    times = {"first build": first}
    started = time.perf_counter()
    scan(source, output, layout)
    times["scan"] = time.perf_counter() - started
    started = time.perf_counter()
    wanted = _wanted(output)
    stale = plan_build(wanted, newest_manifests(output.at("audio"))).stale
    times["plan"] = time.perf_counter() - started
    started = time.perf_counter()
    _, is_new = _commit(output, wanted)
    times["commit"] = time.perf_counter() - started
    if stale or is_new:
        raise SystemExit("the second build was not a no-op")
    return times


def _wanted(output: LocalStorage) -> dict[str, str]:
    fingerprints = existing_catalog(output).header.fingerprints
    return {name: SETTINGS.wanted(digest) for name, digest in fingerprints.items()}


def _commit(output: LocalStorage, wanted: dict[str, str] | None = None) -> tuple[object, bool]:
    digest = existing_catalog(output).header.digest
    return commit_partitions(output.at("audio"), wanted or _wanted(output), digest)[:2]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, nargs="*", default=[1_000, 10_000], help="corpus sizes; none to skip")
    parser.add_argument("--noop", type=int, default=100_000, help="samples of the no-op build; 0 to skip")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/build.json"))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), int(options.child[1]), int(options.child[2]))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        work = Path(folder)
        timings = measure_throughput(work, options.clips, options.rounds, options.threads)
        memory = [measure_memory(work, count, options.threads) for count in options.memory]
        noop = measure_noop(work, options.noop, options.threads) if options.noop else {}
    show(timings, memory, noop, options)
    result = {
        "hardware": {"machine": platform.machine(), "cores": options.threads, "load_before": load},
        "codecs": codec_version(),
        "clips": options.clips,
        "rounds": {name: asdict(timing) for name, timing in timings.items()},
        "memory": memory,
        "noop_seconds": noop,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


def show(
    timings: dict[str, Timing], memory: list[dict[str, float]], noop: dict[str, float], options: argparse.Namespace
) -> None:
    """The tables."""
    print(f"{options.clips} clips of 5 s, {options.threads} threads, {options.rounds} rounds")
    print(f"{'':34}{'clips/s':>9}{'spread':>14}{'of limit':>10}{'CPU ms':>8}{'of limit':>10}")
    limit = timings[LIMIT]
    for name, timing in timings.items():
        rate, cpu = statistics.median(timing.clips_per_second), statistics.median(timing.cpu_ms_per_clip)
        spread = f"{min(timing.clips_per_second):.0f} to {max(timing.clips_per_second):.0f}"
        by_clock = statistics.median(
            ours / theirs for ours, theirs in zip(timing.clips_per_second, limit.clips_per_second, strict=True)
        )
        by_cpu = statistics.median(limit.cpu_ms_per_clip) / cpu
        print(f"{name:34}{rate:9.0f}{spread:>14}{by_clock:10.2f}{cpu:8.2f}{by_cpu:10.2f}")
    for row in memory:
        print(f"memory at {row['num_clips']} clips: {row['imports_mib']} MiB imported, peak {row['peak_mib']} MiB")
    if noop:
        parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in noop.items())
        print(f"no-op build of {options.noop} samples: {parts}")


if __name__ == "__main__":
    main()
