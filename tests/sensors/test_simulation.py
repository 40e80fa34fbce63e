"""In simulated time, with runs of seconds to hours that end in any order: nothing is started twice, nothing fails.

That nothing is started twice, `World.start` looks after.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sensors.simulation import World, config_of, simulated
from tests.support.instances import memory_instance

pytestmark = pytest.mark.medium

FEW_HOURS, MANY_HOURS = 1.0, 1000.0  # above ten, audio and latents of a partition are two runs

sizes = st.integers(1, 4)
"""Numbers of partitions."""
paces = st.lists(st.integers(0, 15).map(lambda power: 2.0**power), min_size=1, max_size=20)
"""Seconds of one step after the other, over again: from one second to nine hours."""


@pytest.fixture(scope="module")
def instance():
    return memory_instance()


def some_of(world, data):
    return data.draw(st.sets(st.sampled_from(world.layout), min_size=1))


@pytest.mark.parametrize("hours", [FEW_HOURS, MANY_HOURS])
@pytest.mark.parametrize("rows", [False, True])
@given(shape=st.tuples(sizes, paces), data=st.data())
@settings(max_examples=3)
def test_a_change_is_one_scan_one_run_for_each_stale_partition_and_one_closing_run(instance, rows, hours, shape, data):
    size, pace = shape
    with simulated(World(config_of(size), pace, hours), instance) as world:
        world.settle()
        assert world.faults() == []
        assert world.is_up_to_date()
        world.runs.clear()
        changed = some_of(world, data)
        world.change(*changed, rows=rows)
        world.settle()
        assert world.faults() == []
        assert world.is_up_to_date()
        keys, num_audio = world.keys, 0 if rows else len(changed)
        assert len(world.made_by(keys.catalog)) == 1
        assert len(world.made_by(keys.audio_shards)) == len(world.made_by(keys.latent_shards("mel"))) == num_audio
        assert len(world.made_by(keys.columns("captions"))) == len(changed)
        assert len(world.made_by(keys.columns_index("captions"))) == len(world.made_by(keys.dataset_report)) == 1
        of_latents = num_audio if hours == MANY_HOURS else 0
        (closing,) = world.made_by(keys.dataset_report)
        of_its_own = 0 if closing.partitions else 1  # the run of the last stale partition closes as well
        assert len(world.runs) == 1 + len(changed) + of_latents + of_its_own


@given(size=st.integers(2, 4), pace=paces)
@settings(max_examples=3)
def test_partitions_that_share_a_run_are_made_in_it_once(instance, size, pace):
    with simulated(World(config_of(size, partitions_per_run=4), pace), instance) as world:
        world.settle()
        assert world.faults() == []
        assert world.is_up_to_date()
        for key in (world.keys.catalog, world.keys.audio_shards, world.keys.dataset_report):
            assert len(world.made_by(key)) == 1


shapes = st.tuples(sizes, st.sampled_from([1, 3]), st.sampled_from([FEW_HOURS, MANY_HOURS]), paces)
"""Partitions, partitions in a run, hours of audio, and paces."""


def changes_at_any_time(instance, shape, data):
    """Changes of recordings and of rows while runs are in progress."""
    size, group, hours, pace = shape
    with simulated(World(config_of(size, group), pace, hours), instance) as world:
        for _ in range(data.draw(st.integers(1, 4))):
            changed, rows = some_of(world, data), data.draw(st.booleans())
            world.at(2.0 ** data.draw(st.integers(0, 17)), lambda c=changed, r=rows: world.change(*c, rows=r))
        world.settle()
        assert world.faults() == []
        assert world.is_up_to_date()


@given(shape=shapes, data=st.data())
@settings(max_examples=6)
def test_changes_at_any_time_start_nothing_twice_and_nothing_fails(instance, shape, data):
    changes_at_any_time(instance, shape, data)


@pytest.mark.slow
@given(shape=shapes, data=st.data())
@settings(max_examples=40)
def test_many_changes_at_any_time_start_nothing_twice_and_nothing_fails(instance, shape, data):
    changes_at_any_time(instance, shape, data)
