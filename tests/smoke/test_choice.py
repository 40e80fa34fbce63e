"""Which shards a smoke test reads: new shards, and all others over a fixed number of tests."""

import zlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.manifests.manifests import ShardEntry, shard_name
from headrace.format.snapshots.shard_table import ShardTable
from headrace.smoke.choice import ChosenShards, Coverage, ReadLimits, choose


def table(
    shards: Iterable[tuple[int, int]], *, version: int = 0, prefix: str = "", num_samples: int = 10
) -> ShardTable:
    """Shards with these hash buckets and sequence numbers, whose names contain a version."""
    names = [shard_name(prefix, "train", bucket, sequence, f"{version:012x}") for bucket, sequence in shards]
    return ShardTable.from_entries(
        [ShardEntry(name, 1000, num_samples, 100, 1.0, "input", num_samples) for name in names]
    )


FORTY = [(bucket, sequence) for bucket in range(4) for sequence in range(10)]


def places(choice: ChosenShards, part: str = "audio") -> set[tuple[int, int]]:
    found = choice.tables[part]
    return set(zip(found.bucket.tolist(), found.sequence.tolist(), strict=True))


def all_known(*tables: tuple[str, ShardTable]) -> dict[str, list[str]]:
    return {part: found.names() for part, found in tables}


def test_without_an_earlier_test_every_shard_is_new():
    choice = choose({"audio": table(FORTY)}, {}, reread_every=10)
    assert places(choice) == set(FORTY)
    assert choice.num_new == {"audio": 40}


@pytest.mark.medium
@given(reread_every=st.integers(1, 15), first=st.integers(0, 100))
def test_every_shard_is_read_once_in_reread_every_tests(reread_every, first):
    audio = table(FORTY)
    choices = [
        choose({"audio": audio}, all_known(("audio", audio)), num_passes=first + i, reread_every=reread_every)
        for i in range(reread_every)
    ]
    assert set().union(*map(places, choices)) == set(FORTY)
    assert all(choice.num_new == {"audio": 0} for choice in choices)
    assert all(places(choice) for choice in choices)


def test_a_tenth_of_the_known_shards_is_read_with_the_new_ones():
    audio = table(FORTY)
    changed = table([(bucket, sequence) for bucket, sequence in FORTY if (bucket, sequence) != (2, 3)])
    counts = []
    for num_passes in range(10):
        choice = choose({"audio": audio}, all_known(("audio", changed)), num_passes=num_passes, reread_every=10)
        assert (2, 3) in places(choice)
        assert choice.num_new == {"audio": 1}
        counts.append(len(places(choice) - {(2, 3)}))
    assert 39 - max(counts) > 25
    assert sum(counts) in {38, 39}


def test_the_place_of_a_shard_decides_when_it_is_read_and_not_its_content():
    """Otherwise a shard that changes often would be read never or always."""
    before, after = table(FORTY), table(FORTY, version=1)
    for num_passes in range(5):
        one, other = (
            choose({"audio": found}, all_known(("audio", found)), num_passes=num_passes, reread_every=5)
            for found in (before, after)
        )
        assert places(one) == places(other)


def test_audio_and_latents_are_read_at_the_same_places():
    audio, latents = table(FORTY), table(FORTY, prefix="latent_")
    known = all_known(("audio", audio), ("mel", table(FORTY[1:], prefix="latent_")))
    choice = choose({"audio": audio, "mel": latents}, known, num_passes=3, reread_every=40)
    assert places(choice) == places(choice, "mel")
    assert FORTY[0] in places(choice)
    assert choice.num_new == {"audio": 0, "mel": 1}


def test_reread_every_1_chooses_every_shard():
    audio = table(FORTY)
    assert places(choose({"audio": audio}, all_known(("audio", audio)), num_passes=7)) == set(FORTY)


def test_an_empty_dataset_gives_an_empty_choice():
    empty = ShardTable.from_entries([])
    assert len(choose({"audio": empty}, {}).tables["audio"]) == 0


def test_within_a_budget_new_shards_come_first():
    audio, old = table(FORTY), table(FORTY[5:])
    budget = ReadLimits(num_samples=70)
    choice = choose({"audio": audio}, all_known(("audio", old)), limits=budget)
    assert len(places(choice)) == 7
    assert set(FORTY[:5]) <= places(choice)
    assert choice.tables["audio"].names() == sorted(choice.tables["audio"].names())


@pytest.mark.parametrize("budget", [ReadLimits(num_samples=25), ReadLimits(num_bytes=2500), ReadLimits(num_samples=0)])
def test_the_budget_applies_to_every_part(budget):
    audio, latents = table(FORTY, num_samples=1), table(FORTY, prefix="latent_")
    choice = choose({"audio": audio, "mel": latents}, {}, limits=budget)
    assert places(choice) == places(choice, "mel")
    assert len(places(choice)) == (1 if budget.num_samples == 0 else 2)
    again = choose({"audio": audio, "mel": latents}, {}, limits=budget)
    assert places(choice) == places(again)


def test_another_snapshot_gives_another_random_choice():
    drawn = {
        frozenset(places(choose({"audio": table(FORTY, version=version)}, {}, limits=ReadLimits(num_samples=50))))
        for version in range(5)
    }
    assert len(drawn) == 5


def test_a_record_survives_a_round_trip():
    covered = Coverage(3, {"audio": (7, "abc"), "latents mel": (2, "def")})
    assert Coverage.from_json(covered.to_json()) == covered


@pytest.mark.parametrize(
    "content", [None, 3, {}, {"passes": "3", "snapshots": {}}, {"passes": 3, "snapshots": {"audio": [7]}}]
)
def test_other_values_are_not_accepted_as_a_record(content):
    assert Coverage.from_json(content) == Coverage()


def test_chosen_tables_keep_their_form():
    chosen = choose({"audio": table(FORTY)}, {}, limits=ReadLimits(num_samples=30)).tables["audio"]
    assert chosen.digest.shape == (3, 6)
    assert chosen.num_bytes.dtype == np.int64
    assert ShardTable.from_bytes(chosen.to_bytes(), "x").names() == chosen.names()


def test_limits_are_inclusive_and_hold_for_samples_and_bytes():
    assert ReadLimits() == ReadLimits(num_samples=20_000, num_bytes=4 * 10**9, num_encoded=64)
    forty = table(FORTY)  # 400 samples, 40,000 bytes
    assert ReadLimits(400, 40_000).hold(forty)
    assert not ReadLimits(399, 40_000).hold(forty)
    assert not ReadLimits(400, 39_999).hold(forty)


def test_a_record_counts_passed_tests_from_0():
    assert Coverage().num_passes == 0
    assert Coverage().after({}).after({}).num_passes == 2


@pytest.mark.parametrize("num_passes", [0, 1, 4, 5])
def test_a_place_is_due_by_the_crc32_of_its_name(num_passes):
    audio = table(FORTY)
    passes = {"num_passes": num_passes} if num_passes else {}
    choice = choose({"audio": audio}, all_known(("audio", audio)), reread_every=5, **passes)
    due = {at for at in FORTY if zlib.crc32(f"train/{at[0]}/{at[1]}".encode()) % 5 == num_passes % 5}
    assert places(choice) == due
    assert 0 < len(due) < 40


def sized(shards, **sizes):
    """A table whose shards have these numbers of samples or bytes, in the order of their names."""
    return replace(table(shards), **{name: np.array(values, np.int64) for name, values in sizes.items()})


@pytest.mark.parametrize("unit", ["num_samples", "num_bytes"])
def test_shards_that_a_part_lacks_cost_nothing_in_it(unit):
    """Three places; one part lacks two of them, and its only shard is read first, or last."""
    three = [(0, 0), (0, 1), (0, 2)]
    audio, limits = sized(three, **{unit: [10, 10, 10]}), ReadLimits(**{unit: 30})
    latents = sized(three[:1], **{unit: [30]})
    known = {"audio": audio.names()[1:], "mel": []}
    larger = sized(three, **{unit: [10, 10, 11]})
    assert places(choose({"audio": larger, "mel": latents}, {**known, "audio": larger.names()[1:]}, limits=limits)) in (
        {(0, 0), (0, 1)},
        {(0, 0), (0, 2)},
    )
    last = {"audio": audio.names()[:1], "mel": latents.names()}
    latents = sized(three[:1], **{unit: [31]})
    assert places(choose({"audio": audio, "mel": latents}, last | {"mel": latents.names()}, limits=limits)) == {
        (0, 1),
        (0, 2),
    }


def test_shards_are_drawn_up_to_exactly_the_limit():
    assert len(places(choose({"audio": table(FORTY)}, {}, limits=ReadLimits(num_samples=50)))) == 5
    assert len(places(choose({"audio": table(FORTY)}, {}, limits=ReadLimits(num_samples=59)))) == 5
    assert len(places(choose({"audio": table(FORTY)}, {}, limits=ReadLimits(num_samples=9)))) == 1
