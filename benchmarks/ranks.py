"""Two ranks on one machine beside one: `python benchmarks/ranks.py [--clips 1500] [--rounds 5]`.

The corpus of `read.py`, FLAC and latents. One rank reads an epoch with a thread for each core; then two ranks, each a
process with half of the cores, read the same global batches, half of every one. Reported: samples/s of all ranks
together, medians and ranges of `--rounds` in turn, two ranks in relation to one, and whether both gave the same global
batches. Writes `results/ranks.json`.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks.peers` and `tests` from the checkout

GLOBAL_BATCH = 64
KINDS = ("audio", "latents")


@dataclass(frozen=True, slots=True)
class Reading:
    """All ranks' epoch: from the common start to the end of the last one."""

    kind: str
    world_size: int
    num_samples: int
    seconds: float
    order: str

    @property
    def rate(self) -> float:
        """Samples per second, of all ranks together."""
        return self.num_samples / self.seconds


def read_rank(kind: str, corpus: str, rank: int, world_size: int) -> None:
    """One rank, in this process, on its share of the cores: prints its keys step by step and when it ended."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // world_size
    os.sched_setaffinity(0, set(cores[rank * share : (rank + 1) * share]))
    from headrace import StreamingDataLoader, StreamingDataset, World  # noqa: PLC0415
    from headrace.streaming import loader as _loader  # noqa: F401, PLC0415 - imports are not measured

    print("ready", flush=True)
    input()
    dataset = StreamingDataset(
        remote=f"{corpus}/{kind}",
        batch_size=GLOBAL_BATCH // world_size,
        shuffle=True,
        world=World(rank, world_size),
    )
    keys = [batch["keys"] for batch in StreamingDataLoader(dataset)]
    print(json.dumps({"keys": keys, "ended": time.time()}))


def measure(kind: str, corpus: Path, world_size: int) -> Reading:
    """All ranks at once, the cores divided among them."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", kind, str(corpus), str(rank), str(world_size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank in range(world_size)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # its imports are done
    begin = time.time()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    steps = zip(*(each["keys"] for each in found), strict=True)
    order = [sorted(key for keys in step for key in keys if key) for step in steps]
    digest = hashlib.sha256(json.dumps(order).encode()).hexdigest()
    ended = max(each["ended"] for each in found)
    return Reading(kind, world_size, sum(map(len, order)), ended - begin, digest)


def show(readings: list[Reading]) -> None:
    """Print medians."""
    print("| kind | ranks | samples/s together | range | of one rank's |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        one = None
        for world_size in (1, 2):
            rates = [each.rate for each in readings if (each.kind, each.world_size) == (kind, world_size)]
            median = statistics.median(rates)
            one = one or median
            print(f"| {kind} | {world_size} | {median:.0f} | {min(rates):.0f}-{max(rates):.0f} | {median / one:.2f} |")
        orders = {each.order for each in readings if each.kind == kind}
        print(f"{kind}: {'the same global batches' if len(orders) == 1 else 'DIFFERENT global batches'}")


def main() -> None:
    """Make the corpus, measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1500)
    parser.add_argument("--per-shard", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "headrace-bench-read")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/ranks.json")
    parser.add_argument("--rank", nargs=4, help=argparse.SUPPRESS)  # one rank, in a process of its own
    options = parser.parse_args()
    if options.rank:
        kind, corpus, rank, world_size = options.rank
        read_rank(kind, corpus, int(rank), int(world_size))
        return
    folder = options.folder / f"{options.clips}-{options.per_shard}"
    if not (folder / "latents-npy").exists():
        from benchmarks.peers.corpus import make  # noqa: PLC0415 - torch, and only the first time

        make(folder, options.clips, options.per_shard)
    readings = [
        measure(kind, folder, world_size) for _ in range(options.rounds) for kind in KINDS for world_size in (1, 2)
    ]
    show(readings)
    options.out.parent.mkdir(exist_ok=True)
    about = {"clips": options.clips, "per_shard": options.per_shard, "num_cores": os.cpu_count()}
    options.out.write_text(json.dumps(about | {"readings": [asdict(each) for each in readings]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
