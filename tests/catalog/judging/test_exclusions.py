"""Keys of `exclude`: what they name, how they are reported, and which shards they change."""

import tarfile

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.assemble.drift import catalog_numbers
from headrace.audio import AudioFormat
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.exclusions import Exclusions, find_exclusions
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.tables.metadata_files import read_keys
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import Partitioning
from headrace.config.source import ColumnsConfig, Duplicates
from headrace.errors import ConfigError
from headrace.format.rejects import RejectSubject
from tests.support.builds import Project, check
from tests.support.catalog_fakes import FakeSource, codes, look, stored, three_files

pytestmark = pytest.mark.medium

CUT = AudioFormat(segment_seconds=0.05)
"""400 frames at 8000 Hz."""


def recordings(**num_frames):
    """Recordings of these lengths, in frames at 8000 Hz."""
    keys = list(num_frames)
    rows = {"path": [f"{key}.wav" for key in keys], "key": keys, "num_frames": list(num_frames.values())}
    return pl.DataFrame(rows).with_columns(sample_rate_hz=pl.lit(8000))


@pytest.fixture
def source():
    return three_files()


def key_of(source, path):
    return dict(look(source).recordings.select("path", "key").iter_rows())[path]


def excluding(*keys, **asked):
    return CatalogSettings(0, excluded=frozenset(keys), **asked)


# Meaning of keys


@pytest.mark.parametrize(
    ("keys", "audio", "expected"),
    [
        ({"a"}, AudioFormat(), Exclusions({"a.wav": "a"})),
        ({"a", "x"}, CUT, Exclusions({"a.wav": "a"}, unknown=("x",))),
        ({"a-s000001"}, CUT, Exclusions(segments={"a.wav": "a-s000001"})),
        ({"a-s000001", "a"}, CUT, Exclusions({"a.wav": "a"})),
        ({"a-s000000", "a-s000001", "a-s000002"}, CUT, Exclusions({"a.wav": "a-s000000 a-s000001 a-s000002"})),
        ({"a-s000003", "b-s000000"}, CUT, Exclusions({"b.wav": "b-s000000"}, unknown=("a-s000003",))),
        ({"a-s000001"}, AudioFormat(), Exclusions(unknown=("a-s000001",))),
        ({"broken", "broken-s000007"}, CUT, Exclusions()),
    ],
)
def test_a_key_may_name_a_recording_a_segment_or_nothing(keys, audio, expected):
    found = find_exclusions(frozenset(keys), recordings(a=1100, b=400), ["broken"], audio)
    assert found == expected


def test_an_excluded_recording_is_a_reject_with_its_key_and_facts(source):
    key = key_of(source, "b/c.wav")
    source.opened.clear()
    result = look(source, asked=excluding(key))
    assert result.recordings["path"].to_list() == ["a.wav", "b/d.wav"]
    assert codes(result) == {"b/c.wav": "excluded"}
    assert result.rejected.select("key", "reason").row(0) == (key, f"left out by exclude: {key}")
    again = look(source, result.catalog)
    assert again.num_opened == 0
    assert again.recordings.equals(look(source).recordings)


def test_an_excluded_recording_leaves_all_others_unchanged(source):
    before = look(source).recordings
    after = look(source, asked=excluding(key_of(source, "a.wav"))).recordings
    assert after.equals(before.filter(pl.col("path") != "a.wav"))


def test_a_key_that_names_nothing_is_a_reject(source):
    result = look(source, asked=excluding("nobody", "zz"))
    rows = result.rejected.select("path", "key", "code", "origin").rows()
    assert rows == [("", key, "excludes_nothing", "exclude") for key in ("nobody", "zz")]
    assert result.recordings.height == 3


def test_keys_of_damaged_and_of_unsettled_files_are_not_reported_as_unknown(source):
    good = key_of(source, "a.wav")
    source.put("a.wav", b"bad")
    result = look(source, asked=excluding(good))
    assert codes(result) == {"a.wav": "undecodable"}
    assert codes(result, RejectSubject.EXCLUDE) == {}


def test_a_recording_excluded_by_a_user_key_reserves_no_key_or_content(source):
    source.put("z.wav", b"content of a.wav")
    table = pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": ["k", "k"]})
    asked = excluding("k", columns=ColumnsConfig(key="key"), duplicates=Duplicates.DROP)
    result = look(source, metadata=table, asked=asked)
    assert result.recordings["path"].to_list() == ["b/d.wav", "z.wav"]
    assert codes(result) == {"a.wav": "excluded", "b/c.wav": "excluded"}


def test_exclusions_do_not_count_as_drift(source):
    source.put("z.wav", b"content of a.wav")
    source.put("broken.wav", b"bad")
    asked = excluding(key_of(source, "b/c.wav"), "nobody", duplicates=Duplicates.DROP)
    result = look(source, asked=asked)
    config = DatasetConfig(name="a", source={"uri": "x"}, output={"uri": "y"})
    assert sorted(codes(result).values()) == ["duplicate", "excluded", "undecodable"]
    assert catalog_numbers(stored(result.catalog, config).header).rejected_share == 1 / 5


PATHS = [f"{letter}.wav" for letter in "abcdef"]


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 40), min_size=6, max_size=6),
    st.sets(st.tuples(st.sampled_from("abcdefxy"), st.none() | st.integers(0, 5))),
    st.booleans(),
)
def test_every_sample_is_built_or_excluded_and_every_key_is_accounted_for(lengths, named, is_cut):
    fake = FakeSource()
    for path, length in zip(PATHS, lengths, strict=True):
        fake.put(path, bytes([length]) * length)
    audio = AudioFormat(segment_seconds=1.0) if is_cut else AudioFormat()  # ten frames of the fake source
    keys = {path[0]: key for path, key in look(fake).recordings.select("path", "key").iter_rows()}
    asked = {keys.get(name, name) + ("" if index is None else f"-s{index:06d}") for name, index in named}
    result = look(fake, asked=CatalogSettings(0, excluded=frozenset(asked), audio=audio))
    samples = {keys[path[0]]: -(-length // 10) if is_cut else 1 for path, length in zip(PATHS, lengths, strict=True)}
    planned = {f"{key}-s{i:06d}" if is_cut else key for key, count in samples.items() for i in range(count)}
    unwanted = {sample for sample in planned if sample in asked or (is_cut and sample[:-8] in asked)}
    left = set()
    for key, excluded in result.recordings.select("key", "excluded_segments").iter_rows():
        own = {f"{key}-s{i:06d}" if is_cut else key for i in range(samples[key])}
        left |= own - set((excluded or "").split())
    assert left == planned - unwanted
    unknown = set(result.rejected.filter(pl.col("code") == "excludes_nothing")["key"])
    assert unknown == asked - planned - set(samples)
    refused = result.rejected.filter(pl.col("origin") == RejectSubject.FILE).height
    assert result.num_found == result.recordings.height + refused


# The table of keys


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("k.csv", "key,why\n007,loud\n,none\nb-s000001,clipped\n007,again\n"),
        ("k.jsonl", '{"key": "007"}\n{"key": null}\n{"key": "b-s000001"}\n'),
    ],
)
def test_keys_of_a_table_are_text_and_empty_cells_are_skipped(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_keys(tmp_path / name) == {"007", "b-s000001"}


def test_keys_may_come_from_parquet(tmp_path):
    pl.DataFrame({"key": ["a", None, ""]}).write_parquet(tmp_path / "k.parquet")
    assert read_keys(tmp_path / "k.parquet") == {"a"}


def test_the_error_about_a_table_without_keys_names_its_purpose(tmp_path):
    (tmp_path / "k.csv").write_text("path\na.wav\n")
    with pytest.raises(ConfigError, match=r"k\.csv \(exclude\): has no column 'key' .* its columns are: path"):
        read_keys(tmp_path / "k.csv")


# In a build


@pytest.fixture
def project(tmp_path):
    """Twelve recordings of five segments each."""
    made = Project(tmp_path, audio=CUT)
    for number in range(12):
        made.put(f"{number:02d}.wav", num_frames=2000)
    return made


def files_of(project, shard):
    """Contents of the files in a shard, by name."""
    with tarfile.open(project.folder / "output/audio" / shard) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def first_key(project):
    return existing_catalog(project.output).recordings()["key"][0]


def test_an_excluded_segment_rewrites_only_its_shard(project):
    before = check(project, project.build())
    key = f"{first_key(project)}-s000002"
    project.exclude = (key,)
    after = check(project, project.build())
    (shard,) = [name for name, keys in before.contents.items() if key in keys]
    assert set(before.contents) - set(after.contents) == {shard}
    assert len(after.written) == 1
    samples = [sample for keys in after.contents.values() for sample in keys]
    assert sorted(samples) == sorted(sample for keys in before.contents.values() for sample in keys if sample != key)
    built_from = after.snapshot.snapshot.catalog
    assert existing_catalog(project.output).header.digest == built_from != before.snapshot.snapshot.catalog
    rejected = existing_catalog(project.output).rejected()
    assert rejected.select("path", "key", "code", "origin").rows() == [("00.wav", key, "excluded", "exclude")]


def test_a_segment_that_is_included_again_is_written_after_later_segments_of_its_recording(project):
    """One task encodes segments of a recording in order of time, so these need two tasks."""
    project.layout = Partitioning({"train": 1.0}, {}, 100)
    before = check(project, project.build())
    key = f"{first_key(project)}-s000002"
    project.exclude = (key,)
    check(project, project.build())
    project.exclude = ()
    after = check(project, project.build())
    ((name, keys),) = after.contents.items()
    assert keys[-1] == key
    (first,) = before.contents
    assert files_of(project, name) == files_of(project, first)


def test_an_excluded_recording_loses_all_segments_and_changes_only_its_partition(project):
    before = check(project, project.build())
    key = first_key(project)
    project.exclude = (key,)
    after = check(project, project.build())
    shards = {name for name, keys in before.contents.items() if any(sample.startswith(key) for sample in keys)}
    assert [name for name, build in after.partitions.items() if build.manifest.number == 2] == [
        name
        for name, build in before.partitions.items()
        if shards & {shard.name for shard in build.manifest.manifest.shards}
    ]
    assert not any(sample.startswith(key) for keys in after.contents.values() for sample in keys)
    assert sum(map(len, before.contents.values())) - sum(map(len, after.contents.values())) == 5


def test_a_recording_with_every_segment_excluded_is_a_reject_and_not_a_failure(project):
    project.build()
    key = first_key(project)
    project.exclude = tuple(f"{key}-s{index:06d}" for index in range(5))
    after = check(project, project.build())
    assert sum(map(len, after.contents.values())) == 55
    rejected = existing_catalog(project.output).rejected()
    assert rejected.select("path", "code", "origin").rows() == [("00.wav", "excluded", "file")]
    assert all(not build.manifest.manifest.refused for build in after.partitions.values())
