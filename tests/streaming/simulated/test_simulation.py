"""Compares the simulation of a job with what the job then does."""

import itertools
import re
import shutil
from pathlib import Path

import pytest

from headrace import Cluster, FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError
from headrace.streaming.run.prefetch import Prefetcher
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import make, wait_for

OWN_SHARDS = {"num_canonical_nodes": 2, "batch_size": 4}
"""With them each of two ranks reads about half of the shards."""


def after_shards(cache, num_shards):
    """Damage for `FaultServer.damage`: none. Single samples come once the cache has this many whole shards."""

    def wait(request, start, blob):
        if request.path.endswith(".tar") and start:  # whole shards start at 0
            wait_for(lambda: len(list(cache.glob("*.tar"))) == num_shards)
        return blob

    return wait


@pytest.fixture
def downloads_at_once(monkeypatch):
    """Downloads begin before the first batch, as they do with workers."""
    init = Prefetcher.__init__
    monkeypatch.setattr(Prefetcher, "__init__", lambda one, *args: init(one, *args) or one.begin())


@pytest.mark.medium
@pytest.mark.usefixtures("downloads_at_once")
def test_each_rank_downloads_what_was_simulated(server, tmp_path):
    planned = make(f"{server.uri}/audio", tmp_path / "simulated", world=World(0, 2), **OWN_SHARDS)
    simulated = planned.simulate(num_hosts=2)
    for rank, use in simulated.hosts.items():
        cache = tmp_path / f"host{rank}"
        # Once all batches that need a shard are delivered, it is not downloaded any more. So no sample comes before.
        server.damage = after_shards(cache, use.num_shards)
        loader = StreamingDataLoader(make(f"{server.uri}/audio", cache, world=World(rank, 2), **OWN_SHARDS))
        batches = iter(loader)
        for _ in range(simulated.num_batches - 1):
            next(batches)
        wait_for(lambda cache=cache, use=use: len(list(cache.glob("*.tar"))) == use.num_shards)
        assert len(list(batches)) == 1
        assert sum(tar.stat().st_size for tar in cache.glob("*.tar")) == use.num_bytes == use.num_bytes_downloaded
    assert all(use.num_shards < simulated.num_shards for use in simulated.hosts.values())
    assert not list((tmp_path / "simulated").glob("*.tar"))


def test_a_host_reads_what_its_ranks_read(dataset_folder):
    settings = {"world": World(0, 4), "batch_size": 4, "num_canonical_nodes": 4}
    dataset = make(f"{dataset_folder}/audio", **settings)
    alone = dataset.simulate(num_hosts=4)
    together = dataset.simulate(Cluster(ranks_per_host=4))
    assert list(alone.hosts) == [0, 1, 2, 3]
    assert (alone.num_hosts, together.num_hosts) == (4, 1)
    assert together.hosts[0].num_shards == together.num_shards == 11
    assert max(use.num_shards for use in alone.hosts.values()) < 11


def test_no_shard_is_read(dataset_folder, tmp_path):
    folder = shutil.copytree(f"{dataset_folder}/audio", tmp_path / "audio", ignore=lambda _, names: _tars(names))
    found = make(str(folder)).simulate()
    assert found.hosts[0].num_bytes == sum(tar.stat().st_size for tar in (dataset_folder / "audio").glob("train*.tar"))


def _tars(names):
    return [name for name in names if name.endswith((".tar", ".idx"))]


def test_joined_latents_are_downloaded_too(dataset_folder):
    audio = make(f"{dataset_folder}/audio").simulate().hosts[0]
    both = make(f"{dataset_folder}/audio", latents=[f"{dataset_folder}/latents/crepe"]).simulate().hosts[0]
    latents = make(f"{dataset_folder}/latents/crepe").simulate().hosts[0]
    assert both.num_shards == 2 * audio.num_shards
    assert both.num_bytes == audio.num_bytes + latents.num_bytes


@pytest.mark.parametrize(
    "more", [{"batching": "length_buckets"}, {"batching": FrameBudget(8000)}, {"shuffle_algo": "full"}]
)
def test_every_way_to_make_batches_can_be_simulated(dataset_folder, more):
    dataset = make(f"{dataset_folder}/audio", world=World(0, 2), **more)
    found = dataset.simulate(Cluster(ranks_per_host=2))
    assert found.num_batches == dataset.num_batches
    assert found.hosts[0].num_shards == 11


def test_a_mixture_counts_the_shards_of_all_streams(dataset_folder):
    streams = [
        Stream(f"{dataset_folder}/audio", split="train"),
        Stream(f"{dataset_folder}/audio", split="test", repeat=3),
    ]
    found = StreamingDataset(streams=streams, batch_size=8, shuffle=True).simulate()
    assert (found.num_shards, found.num_samples) == (13, 60)
    assert found.hosts[0].num_shards == 13


def test_a_plain_web_dataset_can_be_simulated(dataset_folder, tmp_path):
    tars = sorted((dataset_folder / "audio").glob("test*.tar"))
    for number, tar in enumerate(tars):
        shutil.copy(tar, tmp_path / f"plain-{number}.tar")
    found = StreamingDataset(remote=str(tmp_path), batch_size=2).simulate()
    assert found.hosts[0].num_bytes == sum(tar.stat().st_size for tar in tars)


def test_the_first_batches_alone_and_progress(dataset_folder):
    steps = itertools.count()
    dataset = make(f"{dataset_folder}/audio", batch_size=2, world=World(0, 2))
    found = dataset.simulate(num_batches=5, num_hosts=2, progress=lambda: next(steps))
    assert (found.num_simulated, found.num_batches) == (5, 14)
    assert next(steps) == 10


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory):
    """40 shards of five samples, with latents."""
    folder = tmp_path_factory.mktemp("many")
    write_dataset(folder, {"train": clips(200, frames=(300, 400))}, latents=True)
    return folder


BLOCKS = {"shuffle_block_size": 25, "num_canonical_nodes": 4, "predownload": 1, "batch_size": 1}
"""Settings with which the shards are read in blocks of five."""


@pytest.mark.medium
@pytest.mark.parametrize(
    ("more", "least"),
    [
        ({}, 0.3),
        ({"shuffle": False}, 0.3),
        ({"latents": ["latents/crepe"]}, 0.3),
        ({"batching": LengthBuckets(8)}, 0.2),
        ({"world": World(0, 4)}, 0.2),
    ],
)
def test_a_cache_of_half_the_data_downloads_less_again_if_it_knows_the_future(many_shards, more, least):
    more = BLOCKS | more
    if "latents" in more:
        more["latents"] = [f"{many_shards}/{name}" for name in more["latents"]]
    total = make(f"{many_shards}/audio", **more).simulate(num_epochs=6).hosts[0].num_bytes
    found = make(f"{many_shards}/audio", cache_limit=total // 2, **more).simulate(num_epochs=6)
    known, by_last_use = found.hosts[0], found.by_last_use[0]
    assert (found.num_epochs, known.num_bytes) == (6, total)
    assert known.num_bytes_again < (1 - least) * by_last_use.num_bytes_again


def test_without_a_limit_later_epochs_download_nothing(dataset_folder):
    found = make(f"{dataset_folder}/audio").simulate(num_epochs=3)
    assert found.hosts == found.by_last_use
    assert found.hosts[0].num_bytes_downloaded == found.hosts[0].num_bytes


def test_the_simulation_leaves_the_dataset_where_it_was(dataset_folder):
    simulated, other = (make(f"{dataset_folder}/audio", world=World(1, 2)) for _ in range(2))
    simulated.simulate(Cluster(ranks_per_host=2))
    assert simulated.state_dict() == other.state_dict()
    for ours, theirs in zip(StreamingDataLoader(simulated), StreamingDataLoader(other), strict=True):
        assert ours["keys"] == theirs["keys"]


def test_a_split_without_samples_asks_for_nothing(tmp_path):
    write_dataset(tmp_path, {"train": clips(3), "test": []})
    found = make(f"{tmp_path}/audio", split="test").simulate()
    assert (found.num_batches, found.hosts[0].num_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("cluster", "more", "message"),
    [
        (Cluster(ranks_per_host=3), {}, "ranks_per_host=3 does not divide 4 ranks"),
        (None, {"num_batches": 0}, "num_batches"),
        (None, {"num_hosts": 0}, "num_hosts"),
    ],
)
def test_an_invalid_value_is_rejected(dataset_folder, cluster, more, message):
    dataset = make(f"{dataset_folder}/audio", world=World(0, 4))
    with pytest.raises(ConfigError, match=message):
        dataset.simulate(cluster, **more)


def test_what_the_documentation_shows_runs(dataset_folder):
    shown = Path("docs/scaling.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", shown, re.DOTALL)
    names: dict = {}
    exec(code.replace("data/demo/audio", f"{dataset_folder}/audio"), names)
    assert names["simulation"].num_hosts == 2
