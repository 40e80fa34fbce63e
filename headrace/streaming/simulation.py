"""What a training job will ask of its hosts, told before it runs.

Owns the step from a dataset to the needs of some of its hosts: the order is a function, so which shards a host reads
when is known without reading one. What comes of that is `host_model`'s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.errors import ConfigError
from headrace.streaming.batches.rows import StreamReader
from headrace.streaming.checks import convert, number, optional, whole
from headrace.streaming.epochs import COLD_BATCHES, EpochRun
from headrace.streaming.host_model import Host, Need, Needs, Shard, Use, play
from headrace.streaming.planner import Planner
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.world import World


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machines of a job.

    Attributes:
        ranks_per_host: ranks that share a cache folder and a line.
        bytes_per_second: what the store gives a host; None for as much as it takes.
        step_seconds: from one batch to the next if none is waited for.
    """

    ranks_per_host: int = 1
    bytes_per_second: float | None = None
    step_seconds: float = 0.0

    def __post_init__(self) -> None:
        convert(self, whole, "ranks_per_host", least=1)
        convert(self, optional(number), "bytes_per_second")
        convert(self, number, "step_seconds", least=0)


@dataclass(frozen=True, slots=True)
class Simulation:
    """What `StreamingDataset.simulate` found.

    Attributes:
        cluster: the machines.
        world_size: ranks.
        num_hosts: hosts that they are on.
        num_batches: batches of a rank in the epoch.
        num_simulated: how many of them, from the first on, were simulated.
        num_samples: samples of the data, each counted once.
        num_shards: its shards, those of joined latents not counted.
        hosts: what was found for some hosts, by their number.
    """

    cluster: Cluster
    world_size: int
    num_hosts: int
    num_batches: int
    num_simulated: int
    num_samples: int
    num_shards: int
    hosts: dict[int, Use]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a job to simulate.

    Attributes:
        num_batches: batches of a rank, from the epoch's first on; None for all.
        num_hosts: hosts, spread evenly over all.
        progress: called for each batch of each host.
    """

    num_batches: int | None = None
    num_hosts: int = 1
    progress: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        convert(self, optional(whole), "num_batches", least=1)
        convert(self, whole, "num_hosts", least=1)

    def hosts_of(self, total: int) -> list[int]:
        """The numbers of the hosts."""
        return [round(place) for place in np.linspace(0, total - 1, min(self.num_hosts, total))]


def simulate(planner: Planner, fetch: FetchConfig, epoch: int, cluster: Cluster, extent: Extent) -> Simulation:
    """Simulate an epoch's beginning on some hosts of a job.

    Args:
        planner: makes the epoch's order for `planner.world`, whichever rank that is.
        fetch: how shards are fetched.
        epoch: its number.
        cluster: the machines.
        extent: how much of it.

    Raises:
        ConfigError: the ranks do not fill the hosts.
    """
    world_size, size = planner.world.world_size, cluster.ranks_per_host
    if world_size % size:
        raise ConfigError(f"ranks_per_host={size} does not divide {world_size} ranks: all hosts must have as many")
    num_hosts = world_size // size
    run = planner.run(planner.order(epoch))
    total = len(run)
    num_batches = min(total, extent.num_batches or total)
    host = Host(
        planner.batches_ahead(run, fetch.predownload),
        COLD_BATCHES,
        fetch.cache_limit_bytes,
        cluster.bytes_per_second,
        cluster.step_seconds,
    )
    used = {}
    for chosen in extent.hosts_of(num_hosts):
        runs = [_run(planner, rank, epoch) for rank in range(chosen * size, (chosen + 1) * size)]
        used[chosen] = play(_needs(planner.streams.reading.readers, runs, num_batches, extent.progress), host)
    streams = planner.streams
    return Simulation(cluster, world_size, num_hosts, total, num_batches, streams.num_samples, streams.num_shards, used)


def _run(planner: Planner, rank: int, epoch: int) -> EpochRun:
    """A rank's run; each has an order of its own, for an order computes ahead for one rank."""
    planner = replace(planner, world=World(rank, planner.world.world_size))
    return planner.run(planner.order(epoch))


def _needs(
    readers: Sequence[StreamReader], runs: Sequence[EpochRun], num_batches: int, progress: Callable[[], object]
) -> Needs:
    """What some ranks need together."""
    places: dict[tuple[ShardAccess, int], int] = {}
    batches = []
    for index in range(num_batches):
        needs: list[Need] = []
        rows = [run.plan(index).rows for run in runs]
        for stream, reader in enumerate(readers):
            samples = np.concatenate([r.sample_ids[(r.stream_ids == stream) & ~r.is_padding] for r in rows])
            shards, counts = np.unique(reader.locator.find(samples)[0], return_counts=True)
            for shard, taken in zip(shards.tolist(), counts.tolist(), strict=True):
                needs += [(places.setdefault(key, len(places)), taken) for key in reader.with_joined(shard)]
        batches.append(needs)
        progress()
    return Needs([_shard(*key) for key in places], batches)


def _shard(access: ShardAccess, shard: int) -> Shard:
    shards = access.shards.shards
    num_bytes = int(shards.num_bytes[shard])
    if num_bytes < 0:  # of a plain WebDataset, whose indexes are made on first use
        num_bytes = access.index(shard).num_bytes
    return Shard(num_bytes, int(shards.num_samples[shard]))
