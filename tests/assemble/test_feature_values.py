"""Features: columns that are computed from the audio, kept while it is unchanged, and read by views."""

import dataclasses

import pytest
from pydantic import ValidationError

from headrace.assemble.column_sets import bring_columns_up_to_date, build_columns, rows_of_set
from headrace.assemble.views import WantedView, build_view
from headrace.audio import Levels, decode, levels
from headrace.catalog.stored.header import read_header
from headrace.config.dataset import DatasetConfig
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from tests.support.builds import Project, twenty_clips

FEATURES = ({"name": "loudness", "kind": "levels"},)


def _config(project: Project, **changes) -> DatasetConfig:
    plain = project.config().model_dump(by_alias=True, exclude_unset=True)
    return DatasetConfig(**{**plain, "features": FEATURES, **changes})


@pytest.fixture
def project(tmp_path) -> Project:
    found = twenty_clips(tmp_path)
    found.put("long.wav", num_frames=8000, channels=2)
    found.build()
    return found


def _rows(project: Project) -> dict[str, dict[str, object]]:
    snapshot = read_snapshot(project.shards).snapshot
    columns, rows = fitting_columns(project.output.at("columns/loudness"), snapshot), {}
    for shard in read_table(project.shards, snapshot).names():
        index, table = read_index(project.shards, shard), columns.read(shard)
        rows |= {key: table.row(row) for row, key in enumerate(index.keys())}
    return rows


def test_each_sample_has_the_levels_of_its_stored_audio(project):
    bring_columns_up_to_date(project.output, _config(project), "loudness")
    rows = _rows(project)
    assert len(rows) == 21
    for shard in read_table(project.shards, read_snapshot(project.shards).snapshot).names():
        index = read_index(project.shards, shard)
        for row, key in enumerate(index.keys()):
            (blob,) = project.shards.read_ranges(shard, [index.audio_of(row, "").span])
            samples, rate = decode(blob)
            expected = dataclasses.asdict(levels(samples, rate))
            assert rows[key] == expected
    assert {row["loudness_lufs"] is None for row in rows.values()} == {True, False}  # most are shorter than 400 ms
    assert rows[key].keys() == {field.name for field in dataclasses.fields(Levels)}


def test_only_partitions_whose_audio_changed_are_computed_again(project):
    config = _config(project)
    first = bring_columns_up_to_date(project.output, config, "loudness")
    assert bring_columns_up_to_date(project.output, config, "loudness") == first
    project.put("clip03.wav", seed="another", num_frames=500)
    project.build()
    written = {
        partition: len(build_columns(project.output, config, "loudness", partition).written)
        for partition in config.partitioning().partition_keys()
    }
    assert sorted(written.values())[:2] == [0, 0]
    assert max(written.values()) >= 1


def test_a_view_chooses_samples_by_a_feature(project):
    config = _config(project, views={"loud": {"where": "loudness.loudness_lufs > -70"}})
    for name in config.column_sets:
        bring_columns_up_to_date(project.output, config, name)
    view, is_new = build_view(project.output, WantedView.of(config, "loud"))
    assert (sum(split.num_chosen for split in view.snapshot.splits.values()), is_new) == (1, True)


def test_another_version_or_field_has_another_digest(project):
    config, catalog = _config(project), read_header(project.output)
    (own,) = set(rows_of_set(project.output, catalog, "loudness", config).values())
    other = _config(project, features=({**FEATURES[0], "field": "audio"},))
    assert set(rows_of_set(project.output, catalog, "loudness", other).values()) != {own}
    assert rows_of_set(project.output, catalog, "loudness") is None


WRONG = {
    "two of a name": ({"features": FEATURES * 2}, "each entry needs a different name"),
    "a table's name": (
        {"columns": [{"name": "loudness", "table": "a.csv"}]},
        "columns and features are both named loudness",
    ),
    "a set that is taken": ({"features": [{"name": "metadata", "kind": "levels"}]}, "choose another name"),
    "a kind": ({"features": [{"name": "a", "kind": "speech"}]}, "levels"),
    "a field": ({"features": [{**FEATURES[0], "field": "vocals"}]}, r"features \(loudness\).field: no audio field"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_wrong_features_are_named(changes, words, tmp_path):
    with pytest.raises(ValidationError, match=words):
        _config(Project(tmp_path), **changes)
