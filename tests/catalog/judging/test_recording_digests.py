"""Digests of recordings: what they cover, and what a whole file is."""

import polars as pl

from headrace.catalog.judging.recording_digests import is_part_of_file, recording_digests
from tests.support.recording_table import recordings


def test_a_digest_changes_with_what_reaches_a_shard_and_not_with_times():
    (before,) = recording_digests(recordings())
    assert len(before) == 32
    assert recording_digests(recordings(mtime_ns=6, num_bytes=7)).to_list() == [before]
    for change in ({"key": "l"}, {"path": "b.wav"}, {"sha256": "2"}, {"stop_frame": 9}, {"num_channels": 2}):
        assert recording_digests(recordings(**change))[0] != before
    (excluded,) = recording_digests(recordings(excluded_segments="k-s000001"))
    assert excluded.startswith(f"{before}-")


def test_many_recordings_have_the_digests_that_each_has_alone():
    keys = [f"k{number}" for number in range(20_001)]
    together = recording_digests(pl.DataFrame({"key": keys}).join(recordings().drop("key"), how="cross"))
    assert together.n_unique() == len(keys)
    for number in (0, 9_999, 10_000, 20_000):
        assert together[number] == recording_digests(recordings(key=keys[number]))[0]


def test_a_part_of_a_file_is_some_of_its_frames_or_channels():
    rows = [{}, {"start_frame": 1}, {"stop_frame": 1}, {"channels": "0"}]
    table = pl.concat([recordings(**row) for row in rows])
    assert table.select(is_part_of_file()).to_series().to_list() == [False, True, True, True]
