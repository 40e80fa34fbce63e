"""Trainers that share a small cache get right samples while some are killed and another process damages the cache."""

import fcntl
import time

import pytest

from tests.support.drills.apart import Apart, apart
from tests.support.drills.works import CORPUS, damage_file, fill_and_damage, is_latent_tar, train
from tests.support.streaming.corpus import write_dataset
from tests.support.streaming.fault_server import fault_server

LIMIT_KB = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with audio and latents; the shards of both are some three times what the cache may hold."""
    folder = tmp_path_factory.mktemp("store")
    write_dataset(folder, {"train": CORPUS}, latents=True)
    assert sum(path.stat().st_size for path in folder.glob("**/*.tar")) > 2 * LIMIT_KB * 1024
    with fault_server(folder) as face, pytest.MonkeyPatch.context() as patch:
        for name, value in face.environment().items():
            patch.setenv(name, value)
        yield face.uri


def used_bytes(cache) -> int:
    """Bytes in the cache without the foreign files, at a moment at which no process evicts shards."""
    with (cache / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sizes = []
        for path in cache.iterdir():
            try:
                sizes.append(path.stat().st_size if not path.name.startswith("third") else 0)
            except FileNotFoundError:
                continue
        return sum(sizes)


def test_a_shared_cache_killed_filled_and_damaged(store, tmp_path, drill):
    limit = f"{LIMIT_KB}kb"

    def one_round(chance):
        cache = tmp_path / f"cache{chance.random()}"
        cache.mkdir()
        until = time.time() + 3
        trainers = [Apart(train, store, str(cache), limit, until) for _ in range(2)]
        stranger = Apart(fill_and_damage, str(cache), until - 0.3, str(chance.random()))
        came = []
        while time.time() < until - 0.5:
            time.sleep(chance.uniform(0.1, 0.5))
            assert used_bytes(cache) <= LIMIT_KB * 1024, "the cache is larger than its limit"
            if chance.random() < 0.4:
                place = chance.randrange(2)
                came.append("trainer killed" if trainers[place].kill() else "trainer was done before")
                trainers[place] = Apart(train, store, str(cache), limit, until)
        for trainer in trainers:
            came += trainer.done(60).well()
        came += [f"cache: {deed}" for deed in stranger.done(60).well()]
        for path in cache.glob("third*"):
            path.unlink()
        for path in filter(is_latent_tar, cache.iterdir()):  # which validate_hash finds
            damage_file(path, "flip", chance)
            came.append("cache: flip of latents")
        last = [word for _ in range(3) for word in apart(train, store, str(cache), limit, 0.0, True).well()]
        assert "epoch: whole" in last, last
        assert used_bytes(cache) <= LIMIT_KB * 1024
        return [*came, *last]

    drill.repeat(one_round, small=2, full=24)
