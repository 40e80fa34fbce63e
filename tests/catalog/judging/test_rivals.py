"""Recordings with equal bytes: kept, dropped or grouped, and which partitions a new duplicate changes."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.stored.header import grouping_of
from headrace.catalog.stored.partitions import PARTITION, merged_groups
from headrace.config.source import ColumnsConfig, Duplicates
from tests.support.catalog_fakes import (
    codes,
    fingerprints,
    look,
    stored,
    with_partitions,
)
from tests.support.rivals import LAYOUT, config_of, partitions, scanned, source_of

pytestmark = pytest.mark.medium

DROP = CatalogSettings(settle_seconds=0, duplicates=Duplicates.DROP)
DROP_KEYED = CatalogSettings(settle_seconds=0, duplicates=Duplicates.DROP, columns=ColumnsConfig(key="key"))

NAMES = st.sampled_from([f"{name}.wav" for name in "abcdefghij"])
CONTENTS = st.dictionaries(NAMES, st.sampled_from(["1", "22", "333", "4444"]), min_size=1)
ARTISTS = st.dictionaries(NAMES, st.sampled_from(["x", "y", "z"]))


def components(contents, artists):
    """Sets of paths that share an artist or a content, by repeated merging: a slow reference implementation."""
    sets = [{path} for path in contents]
    labels = [{("content", contents[path]), ("group", artists.get(path, path))} for path in contents]
    merged = True
    while merged:
        merged = False
        for i in range(len(sets)):
            for j in range(i + 1, len(sets)):
                if labels[i] & labels[j]:
                    sets[i] |= sets.pop(j)
                    labels[i] |= labels.pop(j)
                    merged = True
                    break
            if merged:
                break
    return sets


# group


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("123456"))), st.randoms())
def test_the_name_of_a_group_is_its_smallest_name_in_any_order(members, random):
    names = merged_groups(members)
    shuffled = members.copy()
    random.shuffle(shuffled)
    assert merged_groups(shuffled) == names
    assert all(names[group] <= group and names[names[group]] == names[group] for group in names)
    for group, content in members:
        assert {names[other] for other, shared in members if shared == content} == {names[group]}


def test_a_long_chain_of_shared_contents_becomes_one_group():
    members = [pair for i in range(5000) for pair in ((f"{i:05d}", f"c{i}"), (f"{i + 1:05d}", f"c{i}"))]
    assert set(merged_groups(reversed(members)).values()) == {"00000"}


@settings(deadline=None, max_examples=25)
@given(CONTENTS, ARTISTS, st.randoms())
def test_grouped_recordings_with_the_same_bytes_or_the_same_group_are_in_one_partition(contents, artists, random):
    recordings = scanned(contents, artists).recordings
    found = partitions(recordings, "artist")
    for together in components(contents, artists):
        assert len({found[path] for path in together}) == 1
    order = list(range(recordings.height))
    random.shuffle(order)
    assert partitions(recordings[order], "artist") == found


@settings(deadline=None, max_examples=25)
@given(CONTENTS, ARTISTS)
def test_grouping_does_not_move_recordings_without_duplicates(contents, artists):
    recordings = scanned(contents, artists).recordings
    kept, grouped = partitions(recordings, "artist", Duplicates.KEEP), partitions(recordings, "artist")
    for together in components(contents, artists):
        if len({artists.get(path, path) for path in together}) == 1:
            assert all(kept[path] == grouped[path] for path in together)


@settings(deadline=None, max_examples=40)
@given(CONTENTS, ARTISTS, NAMES, st.sampled_from(list(Duplicates)), st.data())
def test_a_new_duplicate_changes_only_partitions_of_connected_groups(contents, artists, name, duplicates, data):
    contents.pop(name, None)
    if not contents:
        return
    copied = data.draw(st.sampled_from(sorted(contents.values())))
    asked = CatalogSettings(settle_seconds=0, duplicates=duplicates)
    after_contents = {**contents, name: copied}
    states = []
    for each in (contents, after_contents):
        table = with_partitions(scanned(each, artists, asked).recordings, LAYOUT, "artist", duplicates)
        states.append((fingerprints(table, LAYOUT), dict(table.select("path", PARTITION).iter_rows())))
    (before, at_first), (after, at_last) = states
    changed = {partition for partition in before if before[partition] != after[partition]}
    (connected,) = [paths for paths in components(after_contents, artists) if name in paths]
    assert changed <= {place[path] for place in (at_first, at_last) for path in connected if path in place}
    if duplicates == Duplicates.KEEP:
        assert changed == {at_last[name]}


# drop


@settings(deadline=None, max_examples=25)
@given(CONTENTS)
def test_drop_keeps_the_first_path_of_each_content_and_names_it_in_the_other_rejects(contents):
    result = scanned(contents, asked=DROP)
    first = {content: min(path for path in contents if contents[path] == content) for content in contents.values()}
    assert result.recordings["path"].to_list() == sorted(first.values())
    assert result.recordings["duplicate_of"].null_count() == result.recordings.height
    assert codes(result) == {path: "duplicate" for path in contents if path not in first.values()}
    for path, reason in result.rejected.select("path", "reason").iter_rows():
        assert f"same bytes as {first[contents[path]]}, which is kept" in reason


def test_dropped_recordings_are_not_opened_again_and_return_with_keep():
    source = source_of({"a.wav": "1", "b.wav": "1"})
    first = look(source, asked=DROP)
    again = look(source, first.catalog)
    assert again.recordings["path"].to_list() == ["a.wav", "b.wav"]
    assert again.num_opened == 0
    del source.files["a.wav"]
    assert look(source, first.catalog, asked=DROP).recordings["path"].to_list() == ["b.wav"]


def test_a_content_is_not_lost_if_its_first_recording_has_a_duplicate_key():
    table = pl.DataFrame({"path": ["a.wav", "b.wav", "c.wav"], "key": ["k", "k", "m"]})
    result = look(source_of({"a.wav": "1", "b.wav": "22", "c.wav": "22"}), metadata=table, asked=DROP_KEYED)
    assert result.recordings["path"].to_list() == ["a.wav", "c.wav"]
    assert codes(result) == {"b.wav": "duplicate_key"}


def test_a_dropped_recording_does_not_reserve_its_key():
    table = pl.DataFrame({"path": ["a.wav", "b.wav", "c.wav"], "key": ["j", "k", "k"]})
    result = look(source_of({"a.wav": "1", "b.wav": "1", "c.wav": "333"}), metadata=table, asked=DROP_KEYED)
    assert result.recordings["path"].to_list() == ["a.wav", "c.wav"]
    assert codes(result) == {"b.wav": "duplicate"}


def test_a_rejected_recording_does_not_replace_its_duplicates():
    table = pl.DataFrame({"path": ["a.wav", "b.wav"], "key": ["not a key", "k"]})
    result = look(source_of({"a.wav": "1", "b.wav": "1"}), metadata=table, asked=DROP_KEYED)
    assert (result.recordings["path"].to_list(), codes(result)) == (["b.wav"], {"a.wav": "bad_key"})


# YAML settings


def test_a_file_in_all_groups_joins_them_and_the_largest_group_is_reported():
    contents = {f"{artist}{number}.wav": f"{artist}{number}" for artist in "abc" for number in range(3)}
    contents |= {f"{artist}-silence.wav": "silence" for artist in "abc"}
    catalog = scanned(contents, {path: path[0] for path in contents}).catalog
    configs = [config_of(mode, group_by="artist") for mode in ("keep", "group")]
    assert [stored(catalog, config).header.totals.largest_group for config in configs] == [4, 12]
    assert stored(scanned({}).catalog, config_of("group")).header.totals.largest_group == 0


def test_the_duplicates_setting_decides_the_partitions_and_is_part_of_the_header():
    catalog = scanned({f"{number:02d}.wav": "same" for number in range(30)}).catalog
    found = {mode: stored(catalog, config_of(mode)).header.fingerprints for mode in Duplicates}
    assert found["keep"] == found["drop"] != found["group"]
    groupings = [config_of(mode) for mode in Duplicates] + [config_of(samples="rows", metadata="m.csv")]
    assert len({grouping_of(config) for config in groupings}) == 4
