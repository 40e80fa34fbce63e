"""Order of evictions where the future is known, and the ways in which processes find out what others read."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.cache.eviction import CachedFiles, turns
from tests.support.eviction import put


class EarlierScan:
    """The distances of some files; all others are of other jobs."""

    def __init__(self, **distances):
        self.by_name = distances

    def distances(self, names):
        return np.array([self.by_name.get(name.removesuffix(".tar"), np.nan) for name in names])


class Unsure:
    """A job that another one disturbs."""

    def distances(self, names):
        return None


def names(cache):
    return sorted(path.name.removesuffix(".tar") for path in cache.folder.iterdir() if path.name[0] != ".")


@pytest.fixture
def full(tmp_path):
    """A cache of 400 bytes with four shards of 100, used one after the other."""
    cache = ShardCache(tmp_path, 400)
    for second, name in enumerate("abcd"):
        put(cache, f"{name}.tar")
        os.utime(tmp_path / f"{name}.tar", (second, second))
    return cache


@given(st.lists(st.none() | st.integers(0, 5), max_size=12), st.integers(0, 3))
def test_owners_take_turns_by_last_use_and_ours_leave_by_next_use(distances, num_indexes):
    coldest = [CachedFiles(f"i{n}", False, 10, n) for n in range(num_indexes)]
    coldest += [CachedFiles(f"s{n}.tar", True, 100, n) for n in range(len(distances))]
    known = EarlierScan(**{f"s{n}": float(distance) for n, distance in enumerate(distances) if distance is not None})
    order = list(turns(coldest, known))
    assert [turn.heir for turn in order] == coldest
    assert sorted(turn.victim.name for turn in order) == sorted(kept.name for kept in coldest)
    ours = {kept.name for kept, distance in zip(coldest[num_indexes:], distances, strict=True) if distance is not None}
    assert all((turn.victim.name in ours) == (turn.heir.name in ours) for turn in order)
    gone = [(-known.by_name[turn.victim.name[:-4]], turn.victim.used_ns) for turn in order if turn.victim.name in ours]
    assert gone == sorted(gone)


@pytest.mark.parametrize("uses", [None, Unsure()])
def test_without_a_known_future_the_last_use_decides(full, uses):
    full.next_uses = uses
    put(full, "e.tar", 200)
    assert names(full) == ["c", "d", "e"]


def test_the_shard_that_is_needed_last_goes(full):
    full.next_uses = EarlierScan(a=1.0, b=7.0, c=np.inf, d=3.0)
    put(full, "e.tar", 200)
    assert names(full) == ["a", "d", "e"]


def test_a_job_gives_up_as_much_for_others_as_by_last_use(full):
    """The turns go a (another job's), b (ours), c (another's), d (ours); of ours d is needed last."""
    full.next_uses = EarlierScan(b=1.0, d=9.0)
    put(full, "e.tar", 200)
    assert names(full) == ["b", "c", "e"]
    assert (full.folder / "b.tar").stat().st_mtime == 3  # b stays for d: for other jobs it was used when d was
    full.next_uses = None
    put(full, "f.tar", 100)
    assert names(full) == ["b", "e", "f"]


def test_open_and_wanted_shards_stay_however_late_they_are_needed(full):
    full.next_uses = EarlierScan(a=1.0, b=2.0, c=9.0, d=8.0)
    reader = full.find("c.tar", 100)
    with full.receive("e.tar", 100, keep=["d.tar"]) as incoming:
        incoming.write(bytes(100))
    assert names(full) == ["a", "c", "d", "e"]
    del reader


def test_a_process_that_dies_while_it_evicts_leaves_a_cache_that_works(full, monkeypatch):
    """It dies between the removal of a shard and the note of its last use on the shard that stays."""
    full.next_uses = EarlierScan(a=1.0, b=7.0, c=8.0, d=3.0)

    def die(*_args, **_more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", die)
        with pytest.raises(KeyboardInterrupt):
            put(full, "e.tar")
    assert names(full) == ["a", "b", "d"]
    put(full, "e.tar")
    put(full, "f.tar")
    assert names(full) == ["a", "d", "e", "f"]
    assert full.usage_bytes() == 400
