"""Next uses of the files of a cache folder, from the order and the positions of its readers."""

import numpy as np
import pytest

from headrace import StreamingDataset, World
from headrace.streaming.cache.cache_readers import readers
from headrace.streaming.run.next_uses import FolderUses, RunOrders, order_digest
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import check
from tests.support.streaming.fault_server import fault_server

BLOCKS = {"shuffle_block_size": 25, "num_canonical_nodes": 4, "predownload": 1, "shuffle": True}
"""Settings with which 40 shards are read in blocks of five."""


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory):
    """40 shards of five samples for training and two for testing, with latents."""
    folder = tmp_path_factory.mktemp("many")
    samples = {"train": clips(200, frames=(300, 400)), "test": clips(10, first=900)}
    write_dataset(folder, samples, latents=True)
    return folder


def opened(folder, cache, **more):
    more = {"split": "train", "batch_size": 1, "local": str(cache)} | BLOCKS | more
    return StreamingDataset(remote=f"{folder}/audio", **more)


@pytest.fixture
def uses_of():
    """The uses of a dataset's next run in its cache folder; registered at once."""
    kept = []

    def make(dataset):
        run, planner = dataset.epochs.next_run(), dataset._planner
        orders = RunOrders(run, planner.state(run.order, run.order.start), planner.order)
        (cache,) = dataset.reading.caches
        kept.append(FolderUses(cache, dataset.reading.readers, run, orders))
        kept[-1].moved(0)
        return kept[-1]

    yield make
    for uses in kept:
        uses.close()


def shard_names(dataset):
    access = dataset.reading.readers[0].primary
    return [access.name(number) for number in range(len(access.shards))]


def first_uses(dataset, epoch=0):
    """The batch of this rank that needs each shard first; infinity for none."""
    run, reader = dataset._planner.run(dataset._planner.order(epoch)), dataset.reading.readers[0]
    found = np.full(len(reader.primary.shards), np.inf)
    for index in reversed(range(len(run))):
        rows = run.plan(index).rows
        found[reader.locator.find(rows.sample_ids[~rows.is_padding])[0]] = index
    return found


@pytest.mark.medium
def test_a_run_knows_its_shards_and_those_of_joined_latents_by_name(many_shards, tmp_path, uses_of):
    dataset = opened(many_shards, tmp_path, latents=[f"{many_shards}/latents/crepe"])
    uses = uses_of(dataset)
    latents = dataset.reading.readers[0].joined[0]
    ours = shard_names(dataset)
    partners = [latents.name(number) for number in range(40)]
    found = uses.distances([*ours, *partners, "test_0000_000000-0123456789ab.tar", "other.tar", f"{ours[0]}.gz"])
    assert np.isnan(found[80:]).all()
    assert np.array_equal(found[:40], found[40:80])
    assert (found[:40] <= first_uses(dataset)).all()
    assert (first_uses(dataset) - found[:40] < 30).all()


def test_ranks_that_register_protect_their_shards(many_shards, tmp_path, uses_of):
    datasets = [opened(many_shards, tmp_path, world=World(rank, 2), num_canonical_nodes=2) for rank in range(2)]
    alone = uses_of(datasets[0]).distances(shard_names(datasets[0]))
    later = alone >= 200  # not before the next epoch
    assert 10 <= later.sum() <= 20
    assert np.array_equal(later, np.isinf(first_uses(datasets[0])))
    uses_of(datasets[1])
    (first, _) = readers(tmp_path)
    assert first.facts.world_size == 2
    together = uses_of(datasets[0]).distances(shard_names(datasets[0]))
    assert (together <= 2 * np.minimum(first_uses(datasets[0]), first_uses(datasets[1])) + 1).all()
    assert not (together >= 200).any()


def test_a_run_that_is_behind_in_the_same_order_keeps_what_it_needs(many_shards, tmp_path, uses_of):
    ahead = uses_of(opened(many_shards, tmp_path, batch_size=2))
    ahead.moved(75)
    names = shard_names(opened(many_shards, tmp_path))
    alone = ahead.distances(names)
    uses_of(opened(many_shards, tmp_path))  # at the beginning of the epoch, with another batch size
    assert (ahead.distances(names) <= alone).all()
    assert (ahead.distances(names) <= 200).all()
    assert (alone > 200).any() or np.isinf(alone).any() or (alone > 50).sum() > 10


def test_another_order_of_the_same_shards_leaves_the_decision_to_the_last_use(many_shards, tmp_path, uses_of):
    ours = uses_of(opened(many_shards, tmp_path))
    names = shard_names(opened(many_shards, tmp_path))
    uses_of(opened(many_shards, tmp_path, split="test"))
    assert ours.distances(names) is not None
    other = uses_of(opened(many_shards, tmp_path, shuffle_seed=1))
    assert ours.distances(names) is None
    other.close()
    assert ours.distances(names) is not None


def test_the_digest_of_an_order_covers_what_it_depends_on(many_shards, tmp_path):
    def digest(**more):
        dataset = opened(many_shards, tmp_path, **more)
        order = dataset.epochs.next_run().order
        return order_digest(dataset._planner.state(order, 0))

    same = [digest(), digest(batch_size=4), digest(world=World(1, 4))]
    assert len(set(same)) == 1
    others = [digest(shuffle_seed=1), digest(split="test"), digest(shuffle_block_size=30), digest(shuffle=False)]
    assert len({*same, *others, digest(batching_method="stratified", batch_size=2)}) == 6


@pytest.mark.medium
def test_a_loader_downloads_less_again_than_by_last_use(many_shards, tmp_path, monkeypatch):
    corpus = clips(200, frames=(300, 400))
    with fault_server(many_shards) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        total = opened(many_shards, tmp_path).simulate().hosts[0].num_bytes
        dataset = opened(f"{server.uri}", tmp_path / "cache", cache_limit=total * 7 // 10)
        simulated = dataset.simulate(num_epochs=4)
        fetched = [check(dataset, corpus).stats.num_bytes_fetched for _ in range(4)]
    assert list((tmp_path / "cache").glob(".reader-*")) == []
    again = fetched[-1] - fetched[0]
    assert again >= simulated.hosts[0].num_bytes_again  # single samples of the first batches, and indexes, come on top
    assert again < 0.75 * simulated.by_last_use[0].num_bytes_again
