"""Tables of shards: sorted, joined, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.manifests.manifests import ShardEntry
from headrace.format.snapshots.shard_table import ShardTable, joined_table
from tests.support.snapshots import entry

PLACES = st.lists(
    st.tuples(st.sampled_from(["train", "test", "hold-out"]), st.integers(0, 20_000), st.integers(0, 2_000_000)),
    unique=True,
    max_size=12,
)


@pytest.mark.medium
@given(PLACES, st.randoms(use_true_random=False))
def test_a_table_contains_every_shard_sorted_by_split(places, random):
    entries = [entry(*place, num_samples=1 + place[2] % 7) for place in places]
    random.shuffle(entries)
    table = ShardTable.from_entries(entries)
    found = ShardTable.from_bytes(table.to_bytes(), "x")
    assert found.names() == [shard.name for shard in sorted(entries, key=_order)]
    assert found.to_bytes() == ShardTable.from_entries(entries[::-1]).to_bytes()
    by_name = {shard.name: shard for shard in entries}
    for i, name in enumerate(found.names()):
        shard = by_name[name]
        assert (found.num_samples[i], found.num_bytes[i]) == (shard.num_samples, shard.num_bytes)
        assert found.num_frames[i] == shard.num_frames
    for split in ("train", "test", "hold-out", "absent"):
        rows = range(len(found))[found.rows_of(split)]
        assert [found.name(i) for i in rows] == [name for name in found.names() if name.startswith(f"{split}_")]
    assert len(range(len(found))[found.rows_of(None)]) == len(entries)


def _order(shard):
    split, bucket, rest = shard.name.split("_")
    return split, int(bucket), int(rest.split("-")[0])


def test_rows_of_a_split_and_of_a_bucket_are_those_of_its_shards():
    entries = [entry("train", 0, 0), entry("train", 2, 0), entry("train", 2, 1), entry("train", 3, 0)]
    table = ShardTable.from_entries(entries)
    assert table.of_bucket(2).names() == [shard.name for shard in entries[1:3]]
    assert (table.of_bucket(2).splits, len(table.of_bucket(2))) == (("train",), 2)
    for missing in (1, 4):
        assert (table.of_bucket(missing).splits, table.of_bucket(missing).names()) == ((), [])
    several = ShardTable.from_entries([*entries, entry("test", 1, 0), entry("zoo", 1, 0)])
    assert several.rows_of(None) == slice(0, 6)
    assert [several.rows_of(split) for split in ("test", "train", "zoo")] == [slice(0, 1), slice(1, 5), slice(5, 6)]
    assert several.rows_of("none") == slice(0, 0)
    assert [several.name(row) for row in range(6)] == several.names()


def test_tables_are_joined_with_the_splits_of_each_and_must_have_all_rows():
    parts = [
        ShardTable.from_entries([entry("test", 0, 0)]),
        ShardTable.from_entries([]),
        ShardTable.from_entries([entry("train", 0, 0), entry("train", 1, 0)]),
        ShardTable.from_entries([entry("train", 2, 0)]),
    ]
    whole = joined_table(parts, 4)
    assert whole.names() == [name for part in parts for name in part.names()]
    assert (whole.splits, whole.split.tolist()) == (("test", "train"), [0, 1, 1, 1])
    assert (whole.prefix, whole.suffix) == (parts[0].prefix, ".tar")
    for count, found in ((1, 3), (3, 4), (5, 4)):  # without those after the first that is too many
        with pytest.raises(FormatError, match=f"a snapshot counts {count} shards, the parts of its table {found}"):
            joined_table(parts, count)
    nothing = joined_table([], 0)
    assert (len(nothing), nothing.splits, nothing.suffix) == (0, (), ".tar")


def test_prefix_and_suffix_of_all_names_are_kept():
    names = [f"meta_train_0000_{number:06d}-1a2b3c4d5e6f.columns" for number in range(3)]
    table = ShardTable.from_entries([ShardEntry(name, 1, 1, 1, 1.0, "input", 1) for name in names])
    assert (table.prefix, table.suffix) == ("meta_", ".columns")
    assert tables.unpack(table.to_bytes(), "x")[1]["headrace_shards"] == "1"
    again = ShardTable.from_bytes(table.to_bytes(), "x")
    assert again.names() == joined_table([again], 3).names() == names
