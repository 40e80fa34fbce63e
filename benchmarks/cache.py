"""Measures the downloads that a cache saves by knowing future uses, and the cost of that knowledge.

    python benchmarks/cache.py [--shards 2000] [--epochs 4] [--json PATH]

Downloads: shards that a host of a job downloads in each epoch after the first, as a share of what it reads in an epoch,
with a cache that evicts the least recently used shards and with one that evicts those that are needed last. They are
simulated with the code that a loader runs (`headrace.streaming.simulated.host_model`), without reading anything.

Cost: CPU time of one eviction from a folder of 10,000 files, of a data set of 10⁶ shards, read by eight ranks; and the
memory that knowing their next uses takes.
"""

import argparse
import json
import os
import platform
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.format.snapshots.shard_table import ShardTable
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.cache.cache_readers import ReadData, ReaderFacts
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import OrderSpec
from headrace.streaming.recent import Recent
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.run.next_uses import EpochUses, host_distances
from headrace.streaming.shards.shard_names import ShardNames
from headrace.streaming.shards.shard_set import SnapshotShards
from headrace.streaming.simulated.host_model import Host, HostNeeds, ShardSize, play
from headrace.streaming.world import World

SAMPLES_PER_SHARD = 50
SHARD_BYTES = 1_000_000
SHARES = (0.25, 0.5, 0.75, 0.9)  # of what all hosts read
SHARES_OF_EIGHT = (0.03, 0.06, 0.125, 0.25)
NUM_FILES = 10_000
MANY_SHARDS = 1_000_000
RANKS_PER_HOST = 8


def main() -> None:
    """Print the tables and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/cache.json"))
    arguments = parser.parse_args()
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    results = {
        "machine": machine,
        "shards": arguments.shards,
        "epochs": arguments.epochs,
        "downloads": [
            _downloads(name, spec, hosts, arguments.shards, arguments.epochs) for name, spec, hosts in _jobs()
        ],
        "cost": _cost(),
    }
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def _jobs() -> list[tuple[str, OrderSpec, int]]:
    """Name, order and number of hosts of each job."""
    one, eight = RANKS_PER_HOST * 8, RANKS_PER_HOST * 8 * 8
    return [
        ("shuffled, one host", OrderSpec(one, shuffle=True), 1),
        ("shuffled, 8 hosts", OrderSpec(eight, shuffle=True), 8),
        ("storage order, one host", OrderSpec(one), 1),
    ]


def _downloads(name: str, spec: OrderSpec, num_hosts: int, num_shards: int, num_epochs: int) -> dict[str, object]:
    mixture = Mixture((StreamSpec("data", np.full(num_shards, SAMPLES_PER_SHARD, np.int32)),))
    uses: Recent[int, EpochUses] = Recent(2)

    def epoch_uses(epoch: int) -> EpochUses:
        return uses.get(epoch, lambda number: EpochUses(EpochOrder(spec, mixture, number)))

    worlds = [World(rank, RANKS_PER_HOST * num_hosts) for rank in range(RANKS_PER_HOST)]
    batches: list[list[tuple[int, int]]] = []
    starts: list[tuple[int, int]] = []
    for epoch in range(num_epochs):
        orders = [EpochOrder(spec, mixture, epoch) for _ in worlds]
        runs = [EpochRun(order, order, world) for order, world in zip(orders, worlds, strict=True)]
        for index in range(len(runs[0])):
            rows = np.concatenate([run.plan(index).rows.sample_ids for run in runs])
            shards, counts = np.unique(rows[rows >= 0] // SAMPLES_PER_SHARD, return_counts=True)
            batches.append(list(zip(shards.tolist(), counts.tolist(), strict=True)))
            starts.append((epoch, runs[0].row_after(index)))
    sizes = [ShardSize(SHARD_BYTES, SAMPLES_PER_SHARD)] * num_shards
    needs = HostNeeds(sizes, batches, num_epochs)
    per_epoch = len(batches) // num_epochs
    read = [
        {shard for batch in batches[at : at + per_epoch] for shard, _ in batch}
        for at in range(0, len(batches), per_epoch)
    ]
    mean = sum(map(len, read)) / num_epochs * SHARD_BYTES
    everything = np.arange(num_shards)

    def next_uses(batch: int) -> NDArray[np.float64]:
        epoch, row = starts[batch]
        return host_distances([everything], [(epoch, row, world) for world in worlds], epoch_uses)[0]

    horizon = max(8, 64 * SAMPLES_PER_SHARD // spec.global_batch_size)
    rows_of = []
    print(f"\n{name}: {num_shards} shards, a host reads {mean / SHARD_BYTES:.0f} in an epoch")
    for share in SHARES if num_hosts == 1 else SHARES_OF_EIGHT:
        host = Host(horizon, cache_limit_bytes=int(share * num_shards * SHARD_BYTES))
        found = {}
        for policy, known in (("last use", None), ("next use", next_uses)):
            use = play(needs, host, known)
            later = use.num_bytes_downloaded + use.num_bytes_ranged - len(read[0]) * SHARD_BYTES
            found[policy] = later / (num_epochs - 1) / mean
        print(f"  cache of {share:.0%}: " + ", ".join(f"{policy} {value:.1%}" for policy, value in found.items()))
        rows_of.append({"cache_share": share, **found})
    return {"job": name, "shards_of_a_host": mean / SHARD_BYTES, "downloaded_per_later_epoch": rows_of}


def _cost() -> dict[str, float]:
    """CPU seconds of an eviction, and bytes."""
    rng = np.random.default_rng(0)
    table = ShardTable(
        "", ("train",), np.zeros(MANY_SHARDS, np.uint8), (np.arange(MANY_SHARDS) // 1000).astype(np.int32),
        (np.arange(MANY_SHARDS) % 1000).astype(np.int32), rng.integers(0, 256, (MANY_SHARDS, 6)).astype(np.uint8),
        np.full(MANY_SHARDS, SAMPLES_PER_SHARD, np.int32), np.full(MANY_SHARDS, SHARD_BYTES), np.full(MANY_SHARDS, 0),
    )  # fmt: skip
    shards = SnapshotShards(table, slice(0, MANY_SHARDS))
    spec = OrderSpec(64, shuffle=True)
    mixture = Mixture((StreamSpec("data", table.num_samples),))
    with tempfile.TemporaryDirectory() as folder:
        cache = ShardCache(Path(folder))
        cached = rng.choice(MANY_SHARDS, NUM_FILES, replace=False).tolist()
        for shard in cached:
            (cache.folder / shards.name(shard)).write_bytes(b".")
        registered = [cache.register(ReaderFacts("A", rank, 8, (ReadData("memory://a", None),))) for rank in range(8)]
        cache.limit_bytes = cache.usage_bytes()
        costs = {"by_last_use_seconds": _eviction_seconds(cache)}
        tracemalloc.start()
        uses = {epoch: EpochUses(EpochOrder(spec, mixture, epoch)) for epoch in range(2)}
        cache.next_uses = _Uses(ShardNames([(0, shards, shards)]), uses)
        _evict(cache)
        costs["kept_bytes"] = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        uses.update({epoch: EpochUses(EpochOrder(spec, mixture, epoch)) for epoch in range(2)})
        costs["first_by_next_use_seconds"] = _cpu(lambda: _evict(cache))
        costs["by_next_use_seconds"] = _eviction_seconds(cache)
        for one in registered:
            one.close()
    print("\ncost of an eviction:", ", ".join(f"{name} {value:.4g}" for name, value in costs.items()))
    return costs


class _Uses:
    """Next uses for eight ranks in the middle of an epoch, in place of `FolderUses`."""

    def __init__(self, names: ShardNames, uses: dict[int, EpochUses]) -> None:
        self._names = names
        self._uses = uses

    def distances(self, names: Sequence[str]) -> NDArray[np.float64]:
        """See `NextUses.distances`."""
        found = [self._names.find(name) for name in names]
        places = [place for place, shards in enumerate(found) if shards]
        at = [(0, 25_000_000 + rank, World(rank, 8)) for rank in range(8)]
        distances = np.full(len(names), np.nan)
        shards = np.array([found[place][0][1] for place in places], np.int64)
        distances[places] = host_distances([shards], at, self._uses.__getitem__)[0]
        return distances


def _evict(cache: ShardCache) -> None:
    name = f"new-{time.monotonic_ns()}"
    with cache.receive(name, 1) as incoming:
        assert incoming is not None
        incoming.write(b".")


def _eviction_seconds(cache: ShardCache) -> float:
    return min(_cpu(lambda: _evict(cache)) for _ in range(5))


def _cpu(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
