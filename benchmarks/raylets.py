"""Builds small recordings on three Ray nodes of this machine, one of which is killed in the middle.

    python benchmarks/raylets.py [--recordings 10000] [--partitions 30] [--json PATH]

Each node is a raylet with one processor. Scan and partitions run there as the assets run them, without Dagster. When a
third of the partitions is done, the raylet of one node and its workers are killed. A partition whose task is lost is
started again, as the sensors do. Then the result is compared, byte by byte, with a build by threads of this process.

The table has the CPU seconds of all processes. Needs Ray (``pip install ray``).
"""

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
import wave
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.reconcile import shard_settings, wanted_partitions
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.parts import existing_catalog, partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.errors import BuildError
from headrace.format.manifests.manifests import newest_manifests
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage
from headrace_dagster.resources.ray_workers import RayWorkersResource
from headrace_dagster.resources.workers import Workers, WorkersResource

if TYPE_CHECKING:
    from headrace.assemble.shard_settings import ShardSettings

NUM_NODES = 3
RATE_HZ = 8000
SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/raylets.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raylets") as folder:
        job = _Job(Path(folder), arguments.partitions, _CpuClock())
        job.write(arguments.recordings)
        local = job.build("local", WorkersResource(num_threads=1), at_a_time=1)
        on_ray = _on_ray(job)
        same = job.files("local") == job.files("ray")
    results = {
        "machine": {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "recordings": arguments.recordings,
        "partitions": arguments.partitions,
        "nodes": NUM_NODES,
        "same_bytes": same,
        "threads": local,
        "ray": on_ray,
        "cpu_ratio": on_ray["cpu_seconds"] / local["cpu_seconds"],
    }
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results))


@dataclass(frozen=True, slots=True)
class _Job:
    folder: Path
    num_partitions: int
    clock: "_CpuClock"

    def write(self, num_recordings: int) -> None:
        """Write the recordings: noise, so that FLAC has something to do."""
        (self.folder / "source").mkdir()
        noise = np.random.default_rng(0).integers(-3000, 3000, int(RATE_HZ * SECONDS) + num_recordings, np.int16)
        for number in range(num_recordings):
            with wave.open(str(self.folder / "source" / f"{number:06d}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE_HZ)
                file.writeframes(noise[number : number + int(RATE_HZ * SECONDS)].tobytes())

    def config(self, name: str) -> DatasetConfig:
        """The data set whose output has this name."""
        return DatasetConfig.model_validate(
            {
                "name": name,
                "source": {"uri": str(self.folder / "source"), "settle_seconds": 0},
                "splits": {"train": 1.0},
                "shards": {"partitions": {"train": self.num_partitions}, "samples_per_shard": 100},
                "output": {"uri": str(self.folder / name)},
            }
        )

    def build(
        self, name: str, workers: Workers, *, at_a_time: int, when_done: Callable[[int], None] = lambda _: None
    ) -> dict[str, Any]:
        """Scan and build everything; `when_done` is called with the number of finished partitions after each."""
        config, output = self.config(name), LocalStorage(self.folder / name)
        source = open_source(self.folder / "source")
        began, cpu = time.perf_counter(), self.clock.seconds()
        update_catalog(config, source, None, output, replace(ScanRuntime(), workers=workers))
        scanned = time.perf_counter()
        lost: list[str] = []
        partitions = config.partitioning().partition_keys()
        with ThreadPoolExecutor(at_a_time) as threads:
            tasks = [threads.submit(_built, self.folder, config, name, workers, lost) for name in partitions]
            for number, task in enumerate(tasks, 1):
                task.result()
                when_done(number)
        header = existing_catalog(output).header
        commit_partitions(output.at("audio"), wanted_partitions(header.fingerprints, config), header.digest)
        return {
            "seconds": time.perf_counter() - began,
            "scan_seconds": scanned - began,
            "cpu_seconds": self.clock.seconds() - cpu,
            "partitions_built_again": len(lost),
        }

    def files(self, name: str) -> dict[str, bytes]:
        """The shards, indexes, manifests' digests and other files that depend on the recordings only."""
        audio = LocalStorage(self.folder / name).at("audio")
        files = {entry.path: audio.read(entry.path) for entry in audio.list() if "/" not in entry.path}
        return files | {name: found.manifest.digest.encode() for name, found in newest_manifests(audio).items()}


def _built(folder: Path, config: DatasetConfig, partition: str, workers: Workers, lost: list[str]) -> None:
    """Build a partition, and again if its task is lost."""
    output = LocalStorage(folder / config.name)
    recordings = partition_recordings(output, config, partition)
    settings: ShardSettings = shard_settings(config)
    work = partial(build_partition, partition, recordings, settings, open_source(folder / "source"), output.at("audio"))
    for _ in range(NUM_NODES):
        try:
            workers.run(work, lambda _: None)
        except BuildError:
            lost.append(partition)
        else:
            return
    raise BuildError(f"{partition}: lost too often")


def _on_ray(job: _Job) -> dict[str, Any]:
    import ray  # noqa: PLC0415 - as below
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - not installed everywhere

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(NUM_NODES - 1)]
    cluster.wait_for_nodes()
    seen: dict[str, float] = {}

    def kill(num_done: int) -> None:
        if num_done == max(1, job.num_partitions // NUM_NODES):
            seen["killed_after_partitions"] = num_done
            with job.clock.losing_processes():
                cluster.remove_node(nodes[-1], allow_graceful=False)

    try:
        found = job.build(
            "ray", RayWorkersResource(address=cluster.address, num_cpus=1), at_a_time=NUM_NODES, when_done=kill
        )
    finally:
        ray.shutdown()
        cluster.shutdown()
    return found | seen


class _CpuClock:
    """CPU seconds of this process and its descendants, also of those that were killed."""

    def __init__(self) -> None:
        self._lost = 0.0

    def seconds(self) -> float:
        """CPU seconds so far."""
        parents: dict[int, int] = {}
        seconds: dict[int, float] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = sum(map(int, fields[11:15])) / _TICKS  # with the children that it waited for
        return self._lost + sum(seconds[pid] for pid in seconds if _is_below(pid, os.getpid(), parents))

    @contextlib.contextmanager
    def losing_processes(self) -> Iterator[None]:
        """Keep the seconds of processes that end in this block."""
        before = self.seconds()
        yield
        self._lost += max(0.0, before - self.seconds())


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid not in {ancestor, 0, 1} and pid in parents:
        pid = parents[pid]
    return pid == ancestor


if __name__ == "__main__":
    main()
