"""Measures tars of others on a server that answers as the Hub does, 50 ms after each request.

    python benchmarks/hub.py [--tars 50] [--samples 40] [--latency 0.05] [--rounds 3] [--json PATH]

The server is a process of its own on this machine: one thread, in which no answer waits for the latency of another. A
sample is FLAC of 250 kB and JSON. Measured are: `headrace index --into` without columns and with its defaults, its
bytes as a share of those of the tars, its time as a multiple of samples of a tar · latency, and the CPU time of both
processes; for one tar alone, for all tars at once, and for one tar with an index of webshart or of Energon beside it.
Times are the least of the rounds, since other programs lengthen them. Then the time from `StreamingDataset(…)`, with
that index, to its first batch in shuffled order, whose audio is compared with the files.
"""

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the test data

from headrace import StreamingDataLoader, StreamingDataset
from headrace.stores.storage import open_storage
from headrace.upkeep.tar_indexes import index_tars
from tests.support.foreign_indexes import WRITERS
from tests.support.foreign_indexes import write as write_index
from tests.support.foreign_tars import flac, members
from tests.support.hub import COMMITS, hub_server
from tests.support.tars import tar_of

_FRAMES = 126_000  # of noise: 250 kB of FLAC
_DIFFERENT = 8  # FLAC files; the tars have them again under other keys
_BATCH = 8


def main() -> None:
    """Print the results and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tars", type=int, default=50)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/hub.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = write(folder / "hub" / COMMITS[0] / "data", given.tars, given.samples)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(folder / "hub", given.latency, theirs), daemon=True
        )
        server.start()
        os.environ |= {"HF_ENDPOINT": ours.recv(), "HF_TOKEN": "hf_x"}
        results = measured(folder, given, written, ours)
        server.terminate()
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    asked = {name: getattr(given, name) for name in ("tars", "samples", "latency", "rounds")}
    results = {"machine": machine} | asked | results
    print(json.dumps(results, indent=1))
    given.json.write_text(json.dumps(results, indent=1) + "\n")


def write(folder: Path, num_tars: int, num_samples: int) -> int:
    """Write the tars. Returns the bytes of one."""
    folder.mkdir(parents=True)
    for tar in range(num_tars):
        files = {}
        for sample in range(num_samples):
            number = tar * num_samples + sample
            files[f"s{number:05d}.flac"] = flac(number % _DIFFERENT, _FRAMES)
            files[f"s{number:05d}.json"] = members(number)[f"s{number:03d}.json"]
        (folder / f"train-{tar:03d}.tar").write_bytes(tar_of(files))
    return (folder / "train-000.tar").stat().st_size


def serve(folder: Path, latency: float, asked: Connection) -> None:
    """Serve until the end; answers each message with the bytes and the CPU seconds that it took since the last one."""
    with hub_server(folder) as hub:
        asked.send(hub.urls[0])
        hub.latency, hub.page, cpu = latency, 1000, 0.0
        while True:
            asked.recv()
            asked.send((hub.num_bytes, time.process_time() - cpu))
            hub.num_bytes, cpu = 0, time.process_time()


def measured(folder: Path, given: argparse.Namespace, tar_bytes: int, server: Connection) -> dict[str, Any]:
    """The figures."""
    found: dict[str, Any] = {}
    list(open_storage("hf://datasets/birds/songs/data").list())  # the server computes digests, which the Hub has
    kinds = [("one", "train-000.tar", 1), ("all", "train-*.tar", given.tars)]
    kinds += [(form, "train-000.tar", 1) for form in ("webshart", "energon")]
    for name, pattern, num_tars in kinds:
        theirs = write_index(folder / "hub" / COMMITS[0] / "data" / pattern, name) if name in WRITERS else None
        seconds, our_cpu, their_cpu, num_bytes = map(
            min, zip(*(indexed(pattern, folder / name, server) for _ in range(given.rounds)), strict=True)
        )
        found[f"index_{name}"] = {
            "seconds": round(seconds, 2),
            "of_samples_times_latency": round(seconds / (given.samples * given.latency), 2),
            "cpu_seconds": round(our_cpu, 2),
            "cpu_seconds_of_server": round(their_cpu, 2),
            "share_of_bytes": round(num_bytes / (num_tars * tar_bytes), 5),
        }
        if theirs is not None:
            theirs.unlink()
    begun = time.perf_counter()
    dataset = StreamingDataset(remote=str(folder / "all"), local=str(folder / "cache"), batch_size=_BATCH, shuffle=True)
    batch = next(iter(StreamingDataLoader(dataset)))
    found["first_batch_seconds"] = round(time.perf_counter() - begun, 2)
    found["first_batch_bytes"] = answer_of(server)[0]
    local = StreamingDataset(remote=str(folder / "hub" / COMMITS[0] / "data"), batch_size=_BATCH, shuffle=True)
    found["is_exact"] = all(
        bool((local[number_of(key)]["audio"] == audio[:, : len(local[number_of(key)]["audio"][0])]).all())
        for key, audio in zip(batch["keys"], batch["audio"], strict=True)
    )
    shutil.rmtree(folder / "cache")
    return found


def indexed(pattern: str, into: Path, server: Connection) -> tuple[float, float, float, int]:
    """Index tars into a new folder. Returns seconds, CPU seconds of this process and of the server, and bytes sent."""
    shutil.rmtree(into, ignore_errors=True)
    answer_of(server)
    begun, cpu = time.perf_counter(), time.process_time()
    index_tars(f"hf://datasets/birds/songs/data/{pattern}", into=str(into))
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    num_bytes, of_server = answer_of(server)
    return seconds, cpu, of_server, num_bytes


def answer_of(server: Connection) -> tuple[int, float]:
    """Bytes sent and CPU seconds of the server since the last call."""
    server.send(None)
    answer: tuple[int, float] = server.recv()
    return answer


def number_of(key: str) -> int:
    """The number of a sample."""
    return int(key[1:])


if __name__ == "__main__":
    main()
