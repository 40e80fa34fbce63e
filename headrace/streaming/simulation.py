"""Simulates a training job before it runs: shards, cache, traffic and waits of its hosts.

The order is a function, so the shards that each batch needs are known without reading any. `host_model` simulates a
host with them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.arguments import convert, number, optional, whole
from headrace.errors import ConfigError
from headrace.streaming.batches.stream_reader import StreamReader
from headrace.streaming.epochs import COLD_BATCHES, EpochRun
from headrace.streaming.host_model import Host, HostNeeds, HostUsage, Need, ShardSize, play
from headrace.streaming.planner import Planner
from headrace.streaming.settings import FetchSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.world import World


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machines of a job.

    Attributes:
        ranks_per_host: ranks that share a cache folder and a network link.
        bytes_per_second: rate of the link of a host to the store; None for no limit.
        step_seconds: time of a training step.
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
    """Result of `StreamingDataset.simulate`.

    Attributes:
        cluster: the machines.
        world_size: number of ranks.
        num_hosts: number of hosts.
        num_batches: batches of a rank in the epoch.
        num_simulated: number of simulated batches, from the first on.
        num_samples: samples of the data, each counted once.
        num_shards: shards of the data, without those of joined latents.
        hosts: results of the simulated hosts, by number of the host.
    """

    cluster: Cluster
    world_size: int
    num_hosts: int
    num_batches: int
    num_simulated: int
    num_samples: int
    num_shards: int
    hosts: dict[int, HostUsage]


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
        """Numbers of the hosts to simulate."""
        return [round(place) for place in np.linspace(0, total - 1, min(self.num_hosts, total))]


def simulate(planner: Planner, fetch: FetchSettings, epoch: int, cluster: Cluster, extent: Extent) -> Simulation:
    """Simulate the beginning of an epoch on some hosts of a job.

    Args:
        planner: makes the order of the epoch; the rank of its world does not matter.
        fetch: how shards are fetched.
        epoch: number of the epoch.
        cluster: the machines.
        extent: how much to simulate.

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
    """The run of a rank, with its own order, because an order computes batches ahead for one rank."""
    planner = replace(planner, world=World(rank, planner.world.world_size))
    return planner.run(planner.order(epoch))


def _needs(
    readers: Sequence[StreamReader], runs: Sequence[EpochRun], num_batches: int, progress: Callable[[], object]
) -> HostNeeds:
    """The shards that some ranks need together."""
    places: dict[tuple[ShardAccess, int], int] = {}
    sizes: list[ShardSize] = []
    batches = []
    for index in range(num_batches):
        needs: list[Need] = []
        rows = [run.plan(index).rows for run in runs]
        for stream, reader in enumerate(readers):
            samples = np.concatenate([r.sample_ids[(r.stream_ids == stream) & ~r.is_padding] for r in rows])
            shards, counts = np.unique(reader.locator.find(samples)[0], return_counts=True)
            for shard, taken in zip(shards.tolist(), counts.tolist(), strict=True):
                for key in reader.with_joined(shard):
                    if key not in places:
                        places[key] = len(sizes)
                        sizes.append(_size(reader, shard, *key))
                    needs.append((places[key], taken))
        batches.append(needs)
        progress()
    return HostNeeds(sizes, batches)


def _size(reader: StreamReader, own: int, access: ShardAccess, shard: int) -> ShardSize:
    """Size of a shard; one that is read by ranges counts as a shard of the samples that the view takes of it."""
    shards = access.shards.shards
    num_bytes = int(shards.num_bytes[shard])
    if num_bytes < 0:  # a plain WebDataset, whose indexes are made on first use
        num_bytes = access.index(shard).num_bytes
    stored, taken = reader.stored_samples(own), int(reader.primary.shards.shards.num_samples[own])
    if reader.reads_ranges(own, access, shard):
        return ShardSize(num_bytes * taken // stored, taken)
    return ShardSize(num_bytes, stored)
