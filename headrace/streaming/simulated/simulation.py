"""Simulates a training job before it runs: shards, cache, traffic and waits of its hosts.

The order is a function, so the shards that each batch needs are known without reading any. `host_model` simulates a
host with them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.arguments import convert, number, optional, whole
from headrace.errors import ConfigError
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.recent import Recent
from headrace.streaming.run.epochs import COLD_BATCHES, EpochRun
from headrace.streaming.run.next_uses import EpochUses, host_distances
from headrace.streaming.run.planner import Planner
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.settings import FetchSettings
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.simulated.host_model import Host, HostNeeds, HostUsage, Need, NextUsesAt, ShardSize, play
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
        num_simulated: number of simulated batches of each epoch, from the first on.
        num_epochs: number of simulated epochs.
        num_samples: samples of the data, each counted once.
        num_shards: shards of the data, without those of joined latents.
        hosts: results of the simulated hosts, by number of the host.
        by_last_use: the same, if the cache evicted the least recently used shards; it does so for shards that other
            jobs read as well.
    """

    cluster: Cluster
    world_size: int
    num_hosts: int
    num_batches: int
    num_simulated: int
    num_epochs: int
    num_samples: int
    num_shards: int
    hosts: dict[int, HostUsage]
    by_last_use: dict[int, HostUsage]


@dataclass(frozen=True, slots=True)
class Extent:
    """Part of a job to simulate.

    Attributes:
        num_batches: batches of a rank, from each epoch's first on; None for all.
        num_epochs: epochs; without a limit of the cache, the later ones download nothing.
        num_hosts: hosts, spread evenly over all.
        progress: called for each batch of each host.
    """

    num_batches: int | None = None
    num_epochs: int = 1
    num_hosts: int = 1
    progress: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        convert(self, optional(whole), "num_batches", least=1)
        convert(self, whole, "num_epochs", "num_hosts", least=1)

    def hosts_of(self, total: int) -> list[int]:
        """Numbers of the hosts to simulate."""
        return [round(place) for place in np.linspace(0, total - 1, min(self.num_hosts, total))]


def simulate(planner: Planner, fetch: FetchSettings, epoch: int, cluster: Cluster, extent: Extent) -> Simulation:
    """Simulate an epoch, its beginning, or several epochs on some hosts of a job.

    Args:
        planner: makes the order of the epoch; the rank of its world does not matter.
        fetch: how shards are fetched.
        epoch: number of the first epoch.
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
    epochs = range(epoch, epoch + extent.num_epochs)
    used, by_last_use = {}, {}
    for chosen in extent.hosts_of(num_hosts):
        ranks = range(chosen * size, (chosen + 1) * size)
        job = _HostRuns(planner.streams.reading.readers, [_runs(planner, ranks, number) for number in epochs])
        needs = job.needs(num_batches, extent.progress)
        by_last_use[chosen] = used[chosen] = play(needs, host)
        if host.cache_limit_bytes is not None:
            used[chosen] = play(needs, host, job.next_uses(num_batches, planner))
    streams = planner.streams
    return Simulation(
        cluster, world_size, num_hosts, total, num_batches, extent.num_epochs,
        streams.num_samples, streams.num_shards, used, by_last_use,
    )  # fmt: skip


def _runs(planner: Planner, ranks: Sequence[int], epoch: int) -> list[EpochRun]:
    """The runs of ranks, each with its own order, because an order computes batches ahead for one rank."""
    planners = [replace(planner, world=World(rank, planner.world.world_size)) for rank in ranks]
    return [planner.run(planner.order(epoch)) for planner in planners]


class _HostRuns:
    """The runs of the ranks of one host, epoch after epoch."""

    def __init__(self, readers: Sequence[StreamReader], epochs: Sequence[Sequence[EpochRun]]) -> None:
        self._readers = readers
        self._epochs = epochs
        self._places: dict[tuple[ShardAccess, int], int] = {}
        self._sizes: list[ShardSize] = []
        self._sources: list[tuple[int, int]] = []  # for each place, its stream and the shard of the stream's own

    def needs(self, num_batches: int, progress: Callable[[], object]) -> HostNeeds:
        """The shards that the ranks need together, for the first batches of each epoch."""
        batches = []
        for runs in self._epochs:
            for index in range(num_batches):
                batches.append(self._batch([run.plan(index).rows for run in runs]))
                progress()
        return HostNeeds(self._sizes, batches, len(self._epochs))

    def next_uses(self, num_batches: int, planner: Planner) -> NextUsesAt:
        """Future that the cache knows; see `next_uses`."""
        numbers = np.array(self._sources, np.int64).reshape(-1, 2)
        of_stream = [np.flatnonzero(numbers[:, 0] == stream) for stream in range(len(self._readers))]
        shards = [numbers[places, 1] for places in of_stream]
        uses: Recent[int, EpochUses] = Recent(2)

        def distances(batch: int) -> NDArray[np.float64]:
            epoch, index = divmod(batch, num_batches)
            runs = self._epochs[epoch]
            at = [(run.epoch, run.row_after(index), run.world) for run in runs]
            found = np.empty(len(numbers))
            left = host_distances(shards, at, lambda number: uses.get(number, lambda n: EpochUses(planner.order(n))))
            for places, values in zip(of_stream, left, strict=True):
                found[places] = values
            return found

        return distances

    def _batch(self, rows: Sequence[Rows]) -> list[Need]:
        needs: list[Need] = []
        for stream, reader in enumerate(self._readers):
            samples = np.concatenate([r.sample_ids[(r.stream_ids == stream) & ~r.is_padding] for r in rows])
            shards, counts = np.unique(reader.locator.find(samples)[0], return_counts=True)
            for shard, taken in zip(shards.tolist(), counts.tolist(), strict=True):
                needs += [(self._place(key, (stream, shard)), taken) for key in reader.with_joined(shard)]
        return needs

    def _place(self, key: tuple[ShardAccess, int], source: tuple[int, int]) -> int:
        if key not in self._places:
            self._places[key] = len(self._places)
            self._sources.append(source)
            self._sizes.append(_size(self._readers[source[0]], source[1], *key))
        return self._places[key]


def _size(reader: StreamReader, own: int, access: ShardAccess, shard: int) -> ShardSize:
    """Size of a shard; one that is read by ranges counts as a shard of the samples that the view takes of it."""
    shards = access.shards.shards
    num_bytes = int(shards.num_bytes[shard])
    if num_bytes < 0:  # a plain WebDataset, whose indexes are made on first use
        num_bytes = access.index(shard).num_bytes
    stored, taken = reader.stored_samples(own), int(reader.primary.shards.shards.num_samples[own])
    if reader.reads_ranges(own, access, shard):
        return ShardSize(min(num_bytes, num_bytes * taken // stored), taken)  # windows are more than samples
    return ShardSize(num_bytes, stored)
