import hashlib
import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.assemble.plan import PlannedSample, layout_of, plan_shards
from headrace.config.partitioning import Partitioning, ShardSize, assign_partitions
from headrace.errors import ConfigError

RECORDINGS = st.dictionaries(st.integers(0, 60), st.integers(0, 3), max_size=30)
SIZES = st.integers(1, 6)


def samples_of(recordings, segments=1):
    """Samples of these recordings, given as versions by number."""
    return [
        PlannedSample(f"r{number:03d}-s{index}", f"r{number:03d}", index, f"v{version}")
        for number, version in recordings.items()
        for index in range(segments)
    ]


def plan(previous, samples, size=4, digest="settings", reshuffle=0):
    """The plan after a build, as the builds of partitions make it: another layout is planned from scratch."""
    keys = previous[1] if previous is not None and previous[0] == layout_of(ShardSize(size), reshuffle) else {}
    return plan_shards(keys, samples, size=ShardSize(size), settings=digest)


def carried_out(plans, size=4, reshuffle=0):
    """State of a partition after executing these plans: its layout, and the keys of each shard."""
    return layout_of(ShardSize(size), reshuffle), {
        shard.sequence: [sample.key for sample in shard.samples] for shard in plans
    }


def places(plans):
    return {sample.key: shard.sequence for shard in plans for sample in shard.samples}


def by_sequence(plans):
    return {shard.sequence: shard for shard in plans}


@given(RECORDINGS, SIZES, st.integers(1, 3))
def test_every_sample_is_in_exactly_one_shard_and_all_shards_except_the_last_are_full(recordings, size, segments):
    samples = samples_of(recordings, segments)
    plans = plan(None, samples, size)
    assert sorted(sample.key for shard in plans for sample in shard.samples) == sorted(s.key for s in samples)
    assert all(len(shard.samples) == size for shard in plans[:-1])
    assert [shard.sequence for shard in plans] == list(range(len(plans)))


@pytest.mark.medium
@given(RECORDINGS, SIZES, st.randoms(use_true_random=False))
def test_the_order_in_which_samples_are_given_does_not_matter(recordings, size, random):
    samples = samples_of(recordings)
    shuffled = random.sample(samples, len(samples))
    assert plan(None, shuffled, size) == plan(None, samples, size)


@pytest.mark.medium
@given(RECORDINGS, RECORDINGS, RECORDINGS, SIZES)
@settings(max_examples=80)
def test_in_any_history_each_sample_occurs_once_and_unchanged_samples_never_move(first, second, third, size):
    manifest, before = None, []
    for state in (first, second, third):
        plans = plan(manifest, samples_of(state), size)
        assert sorted(places(plans)) == sorted(sample.key for sample in samples_of(state))
        assert len(places(plans)) == sum(len(shard.samples) for shard in plans)
        kept = set(places(before)) & set(places(plans))
        assert all(places(plans)[key] == places(before)[key] for key in kept)
        assert all(0 < len(shard.samples) <= size for shard in plans)
        sequences = [shard.sequence for shard in plans]
        assert sequences == sorted(set(sequences))
        manifest, before = carried_out(plans, size), plans


@given(RECORDINGS, SIZES)
def test_planning_an_unchanged_partition_changes_nothing(recordings, size):
    plans = plan(None, samples_of(recordings), size)
    assert plan(carried_out(plans, size), samples_of(recordings), size) == plans


@given(RECORDINGS, SIZES, st.data())
def test_a_changed_recording_changes_only_its_own_shard(recordings, size, data):
    assume(recordings)
    changed = data.draw(st.sampled_from(sorted(recordings)))
    before = plan(None, samples_of(recordings), size)
    after = plan(carried_out(before, size), samples_of({**recordings, changed: 99}), size)
    touched = [shard.sequence for shard in after if shard != by_sequence(before)[shard.sequence]]
    assert touched == [places(before)[f"r{changed:03d}-s0"]]
    assert places(after) == places(before)


@given(RECORDINGS, SIZES, st.data())
def test_a_deleted_recording_changes_only_its_own_shard(recordings, size, data):
    assume(recordings)
    gone = data.draw(st.sampled_from(sorted(recordings)))
    before = plan(None, samples_of(recordings), size)
    rest = {number: version for number, version in recordings.items() if number != gone}
    after = plan(carried_out(before, size), samples_of(rest), size)
    unchanged = {shard.sequence for shard in after if shard == by_sequence(before)[shard.sequence]}
    assert {shard.sequence for shard in before} - unchanged == {places(before)[f"r{gone:03d}-s0"]}


@pytest.mark.medium
@given(RECORDINGS, st.integers(61, 80), SIZES)
def test_a_new_recording_fills_the_last_shard_or_starts_a_new_one(recordings, new, size):
    before = plan(None, samples_of(recordings), size)
    after = plan(carried_out(before, size), samples_of({**recordings, new: 0}), size)
    touched = [shard.sequence for shard in after if by_sequence(before).get(shard.sequence) != shard]
    has_room = before and len(before[-1].samples) < size
    assert touched == [before[-1].sequence if has_room else len(before)]


@given(RECORDINGS, SIZES)
def test_other_settings_rewrite_every_shard_and_move_no_sample(recordings, size):
    before = plan(None, samples_of(recordings), size)
    after = plan(carried_out(before, size), samples_of(recordings), size, digest="others")
    assert places(after) == places(before)
    assert not {shard.input_digest for shard in after} & {shard.input_digest for shard in before}


@given(RECORDINGS, SIZES)
def test_another_shard_size_plans_from_scratch(recordings, size):
    manifest = carried_out(plan(None, samples_of(recordings), size), size)
    assert plan(manifest, samples_of(recordings), size + 1) == plan(None, samples_of(recordings), size + 1)


@pytest.mark.medium
@given(RECORDINGS, RECORDINGS, SIZES)
def test_a_raised_reshuffle_plans_from_scratch_once(recordings, later, size):
    worn = carried_out(plan(carried_out(plan(None, samples_of(recordings), size), size), samples_of(later), size), size)
    fresh = plan(None, samples_of(later), size)
    assert plan(worn, samples_of(later), size, reshuffle=1) == fresh
    again = plan(carried_out(fresh, size, reshuffle=1), samples_of(recordings | later), size, reshuffle=1)
    assert {key: place for key, place in places(again).items() if key in places(fresh)} == places(fresh)


def test_recordings_are_shuffled_and_segments_of_a_recording_are_adjacent():
    plans = plan(None, samples_of(dict.fromkeys(range(40), 0), segments=3), 12)
    recordings = [sample.recording for sample in plans[0].samples]
    assert recordings != sorted(recordings)
    for shard in plans:
        numbers = [sample.index for sample in shard.samples]
        assert numbers == [0, 1, 2] * 4


def test_equal_samples_with_another_sequence_number_are_another_shard():
    """A leftover shard must not be reused if its number would clash with a new shard."""
    manifest = carried_out(plan(None, samples_of(dict.fromkeys(range(8), 0))))
    layout, keys = manifest
    second, kept = keys[1], (layout, {1: keys[1]})
    samples = [s for s in samples_of(dict.fromkeys(range(8), 0)) if s.key in second]
    (remembered,) = plan(kept, samples)
    (fresh,) = plan(None, samples)
    assert (remembered.sequence, fresh.sequence) == (1, 0)
    assert {s.key for s in remembered.samples} == {s.key for s in fresh.samples}
    assert remembered.input_digest != fresh.input_digest
    assert remembered.sequence == 1


SIZED = st.dictionaries(st.integers(0, 40), st.integers(1, 40), max_size=25)


def sized(recordings):
    """Samples of these recordings, given as planned bytes by number."""
    return [PlannedSample(f"r{n:03d}", f"r{n:03d}", 0, f"v{size}", size) for n, size in recordings.items()]


def plan_bytes(previous, recordings, limit):
    return plan_shards(previous, sized(recordings), size=ShardSize(bytes_per_shard=limit), settings="settings")


@given(SIZED, st.integers(1, 100))
def test_a_shard_has_at_most_its_planned_bytes_unless_one_sample_has_more(recordings, limit):
    plans = plan_bytes({}, recordings, limit)
    assert sorted(places(plans)) == sorted(sample.key for sample in sized(recordings))
    sizes = [[sample.num_bytes for sample in shard.samples] for shard in plans]
    assert all(sum(group) <= limit or len(group) == 1 for group in sizes)
    assert all(sum(group) + after[0] > limit for group, after in itertools.pairwise(sizes))


@given(SIZED, SIZED, st.integers(1, 100))
def test_planned_bytes_never_move_a_sample(first, second, limit):
    before = plan_bytes({}, first, limit)
    kept = {shard.sequence: [sample.key for sample in shard.samples] for shard in before}
    after = plan_bytes(kept, {**first, **second}, limit)
    assert {key: places(after)[key] for key in places(before)} == places(before)
    new = [shard for shard in after if shard.sequence not in kept]
    assert all(sum(s.num_bytes for s in shard.samples) <= limit or len(shard.samples) == 1 for shard in new)


def test_duplicate_keys_are_an_error():
    with pytest.raises(ConfigError, match="1 samples share a key"):
        plan(None, [*samples_of({1: 0}), *samples_of({1: 1})])


LAYOUT = Partitioning({"train": 0.9, "validation": 0.05, "test": 0.05}, {"train": 8}, 50)


@pytest.mark.medium
@given(st.lists(st.text(min_size=1), unique=True))
def test_the_partition_of_a_group_depends_only_on_the_group(groups):
    together = assign_partitions(groups, LAYOUT)
    assert together == [assign_partitions([group], LAYOUT)[0] for group in groups]
    assert set(together) <= set(LAYOUT.partition_keys())


def test_splits_get_their_configured_shares():
    found = assign_partitions((f"recording {n}.wav" for n in range(20_000)), LAYOUT)
    shares = {split: sum(name.startswith(split) for name in found) / 20_000 for split in LAYOUT.splits}
    assert shares["train"] == pytest.approx(0.9, abs=0.01)
    assert shares["test"] == pytest.approx(0.05, abs=0.01)
    buckets = [found.count(f"train-{bucket:04d}") for bucket in range(8)]
    assert max(buckets) < 1.15 * min(buckets)


def test_partitions_are_the_same_on_every_machine():
    """A change of these values would reshuffle every existing dataset."""
    assert assign_partitions(["a.wav", "b/c.wav", "日本.wav"], LAYOUT) == ["train-0003", "train-0001", "train-0003"]


@given(st.text(min_size=1), st.integers(1, 50), st.integers(1, 50))
def test_the_partition_of_a_group_follows_from_its_hash_as_documented(group, first, second):
    """The first 64 bits of the SHA-256 select the split by its share, the next 64 bits the hash bucket."""
    layout = Partitioning({"a": 0.3, "b": 0.7}, {"a": first, "b": second}, 5)
    number = int.from_bytes(hashlib.sha256(group.encode()).digest()[:16], "big")
    split, bucket = number >> 64, number & (1 << 64) - 1
    name, buckets = ("a", first) if split < round(0.3 * 2**64) else ("b", second)
    assert assign_partitions([group], layout) == [f"{name}-{bucket % buckets:04d}"]


def test_a_manifest_contains_reshuffle_only_if_it_is_not_0():
    assert layout_of(ShardSize(5), 0) == {"samples_per_shard": 5}
    assert layout_of(ShardSize(5), 2) == {"samples_per_shard": 5, "reshuffle": 2}


def test_a_dataset_without_reshuffle_is_not_planned_from_scratch():
    samples = samples_of(dict.fromkeys(range(9), 0))
    first = carried_out(plan(None, samples))
    later = plan(first, [*samples, *samples_of({99: 0})])
    assert places(later).items() >= {key: sequence for sequence, keys in first[1].items() for key in keys}.items()


def test_the_order_of_the_splits_in_the_yaml_does_not_matter():
    turned = Partitioning(dict(reversed(LAYOUT.splits.items())), LAYOUT.partitions, LAYOUT.samples_per_shard)
    groups = [str(n) for n in range(500)]
    assert assign_partitions(groups, turned) == assign_partitions(groups, LAYOUT)


def test_splits_without_a_share_get_nothing():
    layout = Partitioning({"none": 0.0, "all": 1.0}, {}, 5)
    assert set(assign_partitions((str(n) for n in range(500)), layout)) == {"all-0000"}
