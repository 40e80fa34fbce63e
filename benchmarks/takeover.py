"""A changed caption in a large partition: `python benchmarks/takeover.py [--samples 10000] [--clips 400] [--rounds 9]`.

A partition is built, with captions in the JSON (`source.json: embed`). Then the catalog is scanned with other captions,
*the recordings' folder is renamed*, and the partition is built again:

1. One caption of `--samples` short recordings changed: shards written, samples copied, recordings opened.
2. All captions of `--clips` recordings of 5 s changed, so that every shard is written: audio per second, in turn with a
   plain copy of the same shards (`shutil.copyfile`), and with a copy that computes the SHA-256 of every byte, which a
   name by content needs. Beside it, the first build, which encodes everything.

The second part is measured in two places:

- *page cache*: the shards are read from memory, and written to it. A plain copy is then little more than one copy in
  memory.
- *disk*: before each reading, the page cache drops the shards that are read, and the time ends when all files that were
  written are on the disk (`fsync`). So it is for a data set that is larger than the memory.

Results are medians, over the rounds, of the ratio in each round, with quartiles. Ratios of CPU time are given besides,
because other programs may run. Before each reading, the process touches and frees some memory, because the host of a
virtual machine may have to provide free memory first. Writes `results/takeover.json`.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` and `tests` from the checkout

import polars as pl  # noqa: E402

from benchmarks.peers.measure import bring_memory_back  # noqa: E402
from headrace.assemble.audio import build_partition  # noqa: E402
from headrace.assemble.shard_settings import ShardSettings  # noqa: E402
from headrace.assemble.update import PartitionBuild  # noqa: E402
from headrace.catalog.stored.parts import partition_recordings  # noqa: E402
from headrace.catalog.stored.update import update_catalog  # noqa: E402
from headrace.config.partitioning import Partitioning, ShardSize  # noqa: E402
from headrace.sources.sources import open_source  # noqa: E402
from tests.support.builds import Project  # noqa: E402

PARTITION = "train-0000"
Pending = Callable[[], PartitionBuild]
RATE_HZ = 44_100
_PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class Timing:
    """Seconds of each round."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self, work: Callable[[], object]) -> None:
        """Run `work` and add its time."""
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu.append(time.process_time() - cpu)
        self.clock.append(time.perf_counter() - clock)


def captions(num_samples: int, version: str, changed: range) -> pl.DataFrame:
    """The metadata of all recordings, with other captions for some."""
    return pl.DataFrame(
        {
            "path": [f"{number:06d}.wav" for number in range(num_samples)],
            "caption": [f"caption {number} {version if number in changed else ''}" for number in range(num_samples)],
        }
    )


class Benchmark:
    """One partition, and what is done to it."""

    def __init__(self, folder: Path, num_samples: int, num_frames: int, num_threads: int) -> None:
        layout = Partitioning({"train": 1.0}, {"train": 1}, 50)
        self.num_samples = num_samples
        self.project = Project(
            folder, layout=layout, num_threads=num_threads, metadata=captions(num_samples, "", range(0))
        )
        for number in range(num_samples):
            self.project.put(f"{number:06d}.wav", seed=number, num_frames=num_frames + number % 977, rate=RATE_HZ)
        self.encoded = Timing()
        self.encoded.measure(self.project.build)
        self.scanned = folder / "source"
        self.hidden = folder / "renamed"

    def with_captions(self, version: str, changed: range) -> Pending:
        """Scan other captions and rename the recordings' folder. Returns what builds the partition."""
        project = self.project
        project.metadata = captions(self.num_samples, version, changed)
        source = open_source(self.scanned)
        update_catalog(project.config(), source, project.metadata, project.output)
        recordings = partition_recordings(project.output, project.config(), PARTITION)
        self.scanned.rename(self.hidden)
        settings = ShardSettings(project.audio, ShardSize(50))
        threads = project.num_threads
        return lambda: build_partition(PARTITION, recordings, settings, source, project.shards, num_threads=threads)

    def restore(self) -> None:
        """Give the recordings' folder its name again."""
        self.hidden.rename(self.scanned)

    def tars(self, build: PartitionBuild) -> list[Path]:
        """The shards of a build."""
        return [self.project.shards.local_path(shard.name) for shard in build.manifest.manifest.shards]


def copied(paths: list[Path], folder: Path) -> None:
    """A plain copy of files."""
    for path in paths:
        shutil.copyfile(path, folder / path.name)


def copied_with_digest(paths: list[Path], folder: Path) -> None:
    """A copy of files with the SHA-256 of every byte, which a name by content needs."""
    for path in paths:
        digest = hashlib.sha256()
        with path.open("rb") as source, (folder / path.name).open("wb") as target:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
                target.write(piece)


COPIES = {"plain copy": copied, "copy with SHA-256": copied_with_digest}


def one_caption(folder: Path, num_samples: int, num_threads: int) -> dict[str, object]:
    """One caption of many changed: what is written, and how long it takes."""
    bench = Benchmark(folder, num_samples, RATE_HZ // 20, num_threads)
    work = bench.with_captions("once", range(num_samples // 2, num_samples // 2 + 1))
    timing, results = Timing(), list[PartitionBuild]()
    timing.measure(lambda: results.append(work()))
    (changed,) = results
    print(
        f"one caption of {num_samples}: {len(changed.written)} shard written, {len(changed.reused)} reused, samples "
        f"{changed.audio}, no recording opened (their folder was renamed): {timing.clock[0]:.2f} s"
    )
    return {
        "shards_written": len(changed.written),
        "shards_reused": len(changed.reused),
        "samples": asdict(changed.audio),
        "recordings_opened": 0,
        "seconds": timing.clock[0],
    }


def in_page_cache(_paths: list[Path]) -> None:
    """Leave files in the page cache."""


def on_disk(paths: list[Path]) -> None:
    """Wait until files are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def dropped(paths: list[Path]) -> None:
    """Drop files from the page cache."""
    on_disk(paths)
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


Files = Callable[[list[Path]], None]
PLACES: dict[str, tuple[Files, Files]] = {"page cache": (in_page_cache, in_page_cache), "disk": (dropped, on_disk)}
"""Place of shards → operation on the files to read before the measurement, and on the written ones at its end."""


@dataclass(slots=True)
class Rounds:
    """Times of taking over and of copies, in one place."""

    place: str
    timings: dict[str, Timing] = field(default_factory=lambda: {kind: Timing() for kind in ("take over", *COPIES)})

    def measure(self, kind: str, read: list[Path], work: Callable[[], list[Path]]) -> None:
        """Run `work`, which reads these files and returns those that it wrote."""
        before, after = PLACES[self.place]
        before(read)
        bring_memory_back()
        self.timings[kind].measure(lambda: after(work()))

    def result(self, size: int) -> dict[str, object]:
        """Rates and ratios; prints them."""
        rates = {kind: size / statistics.median(timing.clock) / 1e6 for kind, timing in self.timings.items()}
        print(f"{self.place}: " + ", ".join(f"{kind} {rate:.0f} MB/s" for kind, rate in rates.items()))
        ours, ratios, cpu = self.timings["take over"], {}, {}
        for kind in COPIES:
            other = self.timings[kind]
            ratios[kind] = spread([b / a for a, b in zip(ours.clock, other.clock, strict=True)])
            cpu[kind] = min(other.cpu) / min(ours.cpu)
            low, median, high = ratios[kind]
            print(
                f"{self.place}: take over : {kind} = {median:.2f} ({low:.2f} to {high:.2f}) by the clock, "
                f"{cpu[kind]:.2f} by CPU time"
            )
        return {
            "megabytes_per_second": rates,
            "ratio": ratios,
            "ratio_cpu": cpu,
            "timings": {kind: asdict(timing) for kind, timing in self.timings.items()},
        }


def spread(ratios: list[float]) -> list[float]:
    """Lower quartile, median and upper quartile."""
    return statistics.quantiles(ratios, n=4, method="inclusive")


def all_captions(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """All captions changed, round after round, in turn with copies of the same shards."""
    bench = Benchmark(folder, options.clips, 5 * RATE_HZ, options.threads)
    places = [Rounds(place) for place in PLACES]
    shards, target = bench.project.shards.root, folder / "copies"
    results: list[PartitionBuild] = []

    def taken_over(work: Pending) -> list[Path]:
        results.append(work())
        return bench.tars(results[-1])

    def copies(copy: Callable[[list[Path], Path], None], paths: list[Path]) -> list[Path]:
        copy(paths, target)
        return list(target.iterdir())

    for turn in range(options.rounds):
        for rounds in places:
            work = bench.with_captions(f"{rounds.place} {turn}", range(options.clips))
            rounds.measure("take over", list(shards.glob("*.tar")), lambda: taken_over(work))  # noqa: B023 - now
            bench.restore()
            paths = bench.tars(results[-1])
            for kind, copy in COPIES.items():
                target.mkdir()
                rounds.measure(kind, paths, lambda: copies(copy, paths))  # noqa: B023 - called at once
                shutil.rmtree(target)
            for path in set(shards.glob("*.tar")) - set(paths):
                path.unlink()
                path.with_suffix(".idx").unlink()
    size = sum(path.stat().st_size for path in bench.tars(results[-1]))
    print(f"encoding all: {size / bench.encoded.clock[0] / 1e6:.1f} MB/s")
    return {
        "shard_bytes": size,
        "samples_of_last": asdict(results[-1].audio),
        "encoding": asdict(bench.encoded),
        "places": {rounds.place: rounds.result(size) for rounds in places},
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--clips", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = {
            "machine": {"cpus": len(os.sched_getaffinity(0)), "python": platform.python_version()},
            "load_at_start": os.getloadavg(),
            "options": vars(options),
            "one_caption": one_caption(Path(name) / "one", options.samples, options.threads),
            "all_captions": all_captions(Path(name) / "all", options),
        }
    path = ROOT / "benchmarks" / "results" / "takeover.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
