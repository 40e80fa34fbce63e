"""Runs `headrace simulate`: makes a dataset from the options, and prints the result as a table with advice.

The simulation itself is `headrace.streaming.simulated.simulation`.
"""

import argparse
import math
from collections.abc import Callable, Iterator

from rich.console import Console

from headrace.arguments import parse_bytes
from headrace.cli.tables import bytes_text, duration_text, grid
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.order.passes import BLOCK_SHARDS
from headrace.streaming.order.spec import DEFAULT_CANONICAL_NODES
from headrace.streaming.simulated.simulation import Cluster, Simulation
from headrace.streaming.world import World

_MUCH_WAITING = 0.05
_FEW_READERS = 1.5
_MOST_RANKS = 8


def simulate(options: argparse.Namespace, advance: Callable[[], object]) -> Simulation:
    """Simulate the job that the options describe; `advance` is called for each batch of each host."""
    dataset = StreamingDataset(
        remote=options.path,
        latents=options.latents,
        view=options.view,
        where=options.where,
        split=options.split,
        snapshot=options.snapshot,
        key_at=options.key_at,
        batch_size=options.batch_size,
        world=World(0, options.world_size),
        shuffle=not options.no_shuffle,
        shuffle_algo=options.shuffle_algo,
        shuffle_block_size=options.shuffle_block_size,
        num_canonical_nodes=options.num_canonical_nodes,
        cache_limit=options.cache_limit,
        predownload=options.predownload,
    )
    cluster = Cluster(
        ranks_per_host=options.ranks_per_host or _usual_host(options.world_size),
        bytes_per_second=parse_bytes(options.bandwidth, "bandwidth"),
        step_seconds=options.step_seconds,
    )
    return dataset.simulate(
        cluster, num_batches=options.batches, num_epochs=options.epochs, num_hosts=options.hosts, progress=advance
    )


def _usual_host(world_size: int) -> int:
    """Ranks on each host where the option is not given: the greatest divisor of the world size up to 8."""
    return next(size for size in range(_MOST_RANKS, 0, -1) if world_size % size == 0)


def print_simulation(console: Console, found: Simulation, options: argparse.Namespace) -> None:
    """Print the table and the advice."""
    hosts, cluster = found.hosts.values(), found.cluster
    rows = [
        ("shards that a batch draws from", *(f"{use.shards_per_batch:.1f}" for use in hosts)),
        (f"shards read, of {found.num_shards}", *(use.num_shards for use in hosts)),
        ("their size", *(bytes_text(use.num_bytes) for use in hosts)),
        ("working set: bytes needed at a time", *(bytes_text(use.working_set_bytes) for use in hosts)),
        ("downloaded", *(bytes_text(use.num_bytes_downloaded) for use in hosts)),
        ("… again, because the cache was full", *(bytes_text(use.num_bytes_again) for use in hosts)),
        *_by_last_use(found, options),
        ("read sample by sample", *(bytes_text(use.num_bytes_ranged) for use in hosts)),
    ]
    if cluster.step_seconds:
        seconds = cluster.step_seconds * max(1, found.num_simulated * found.num_epochs)
        rows.append(("network a second, on average", *(bytes_text(use.num_bytes_fetched / seconds) for use in hosts)))
    if cluster.bytes_per_second:
        rows.append(("first batch after", *(duration_text(use.first_batch_seconds) for use in hosts)))
        rows.append(("time", *(duration_text(use.seconds) for use in hosts)))
        rows.append(("… of it waiting", *(f"{use.wait_share:.1%}" for use in hosts)))
    parts = [f"the first {found.num_simulated}"] if found.num_simulated < found.num_batches else []
    parts += [f"{found.num_epochs} epochs"] if found.num_epochs > 1 else []
    part = f" ({' of each of '.join(parts)} are simulated)" if parts else ""
    ranks = f"{found.world_size} ranks, {cluster.ranks_per_host} on a host"
    console.print(f"{found.num_batches} batches on each of {ranks}{part}", style="bold", highlight=False)
    names = [f"host {number} of {found.num_hosts}#" for number in found.hosts]
    console.print(grid("", ("what a host does", *names), rows))
    for sentence in advice(found, options):
        console.print(f"· {sentence}", highlight=False, markup=False)


def _by_last_use(found: Simulation, options: argparse.Namespace) -> list[tuple[str, ...]]:
    """The row of a cache that knows no future."""
    again = (bytes_text(use.num_bytes_again) for use in found.by_last_use.values())
    return [("… again, if the least recently used shards were evicted", *again)] if options.cache_limit else []


def advice(found: Simulation, options: argparse.Namespace) -> Iterator[str]:
    """Advice on settings, one sentence each; empty where no change is needed."""
    hosts = found.hosts.values()
    if not options.no_shuffle and options.shuffle_algo != "full":
        yield from _locality(found, options)
    most = max(use.working_set_bytes for use in hosts)
    if most > (parse_bytes(options.cache_limit) or most):
        yield (
            f"A cache_limit of {options.cache_limit} is less than the {bytes_text(most)} that a host needs at a time: "
            "raise it, or lower shuffle_block_size (which changes the order)."
        )
    if (share := max(use.wait_share for use in hosts)) > _MUCH_WAITING:
        yield f"A host waits {share:.0%} of its time: its bandwidth is too low."


def _locality(found: Simulation, options: argparse.Namespace) -> Iterator[str]:
    """Advice on how many hosts read each shard, and on settings with which it would be one.

    The samples of a block are dealt to its canonical nodes in turn, and each node has its own shards of the block. A
    rank reads from the nodes that are equal modulo gcd(world size, number of nodes); see docs/order.md.
    """
    samples_per_shard = found.num_samples / max(1, found.num_shards)
    block_shards = (options.shuffle_block_size or BLOCK_SHARDS * samples_per_shard) / max(1.0, samples_per_shard)
    num_nodes = min(options.num_canonical_nodes or DEFAULT_CANONICAL_NODES, max(1, round(block_shards)))
    num_groups = math.gcd(found.world_size, num_nodes)
    readers = found.num_hosts * min(1.0, found.cluster.ranks_per_host / num_groups)
    wanted = max(found.world_size, DEFAULT_CANONICAL_NODES // found.world_size * found.world_size)
    if readers >= _FEW_READERS and wanted < found.num_shards:
        yield (
            f"Each shard is read by {readers:.3g} of {found.num_hosts} hosts. With num_canonical_nodes={wanted} and "
            f"shuffle_block_size={math.ceil(wanted * samples_per_shard)} it would be one (which changes the order and "
            "the working set)."
        )
