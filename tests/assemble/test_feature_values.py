"""Features: columns that are computed from the audio, kept while it is unchanged, and read by views."""

import dataclasses

import numpy as np
import pytest
from pydantic import ValidationError

from headrace import features
from headrace.assemble.column_sets import bring_columns_up_to_date, build_columns, rows_of_set
from headrace.assemble.feature_values import FeatureValues
from headrace.assemble.views import WantedView, build_view
from headrace.audio import Levels, decode, levels
from headrace.catalog.stored.header import read_header
from headrace.config.dataset import DatasetConfig
from headrace.encoding.clips import AudioForm, read_clip
from headrace.encoding.sources import audio_shard
from headrace.errors import BuildError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from tests.features.test_quality import CURVES
from tests.support.builds import Project, twenty_clips
from tests.support.onnx_models import QUALITY, SPEECH

pytestmark = pytest.mark.medium

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


def _rows(project: Project, name: str = "loudness") -> dict[str, dict[str, object]]:
    snapshot = read_snapshot(project.shards).snapshot
    columns, rows = fitting_columns(project.output.at(f"columns/{name}"), snapshot), {}
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


def test_only_shards_whose_audio_changed_are_measured_again(project, monkeypatch):
    config, shards = (
        _config(project),
        lambda: set(read_table(project.shards, read_snapshot(project.shards).snapshot).names()),
    )
    before, measured = shards(), []
    columns = FeatureValues.columns
    monkeypatch.setattr(
        FeatureValues, "columns", lambda own, index: measured.append(index.shard) or columns(own, index)
    )
    bring_columns_up_to_date(project.output, config, "loudness")
    assert sorted(measured) == sorted(before)
    measured.clear()
    project.put("clip03.wav", seed="another", num_frames=500)
    project.build()
    bring_columns_up_to_date(project.output, config, "loudness")
    assert sorted(measured) == sorted(shards() - before)
    assert 0 < len(measured) < len(before)
    assert len(_rows(project)) == 21


VAD = {"name": "vad", "kind": "speech", "file": str(SPEECH), "threshold": 0.2, "min_speech_seconds": 0}
MORE = (VAD, {"name": "dnsmos", "kind": "quality", "file": str(QUALITY)})
MINE = {"name": "mine", "kind": "custom", "feature": "tests.assemble.test_feature_values:mean_size"}


def mean_size(audio, sample_rate_hz):
    if audio.shape[1] == 319:
        raise ValueError("an odd length")
    return {"size": float(np.abs(audio).mean()), "about": f"{sample_rate_hz} Hz"}


mean_size.columns, mean_size.fingerprint = {"size": "float", "about": "text"}, "1"


@pytest.mark.parametrize(("set_name", "columns"), [("vad", {"speech_share", "speech"}), ("dnsmos", set(CURVES))])
def test_models_take_audio_of_their_own_rate(project, set_name, columns):
    """Recordings of 8 kHz are measured at 16 kHz, whichever thread measures them."""
    config = _config(project, features=MORE)
    bring_columns_up_to_date(project.output, config, set_name)
    rows, feature = _rows(project, set_name), config.feature(set_name)
    assert len(rows) == 21
    assert all(row.keys() == columns for row in rows.values())
    loaded = features.load(feature.kind, feature.settings)
    for shard in read_table(project.shards, read_snapshot(project.shards).snapshot).names():
        with audio_shard(project.shards, shard) as opened:
            for clip in opened.clips:
                audio = read_clip(clip, AudioForm(16_000, 1), 0, 2 * clip.num_frames)
                assert rows[clip.key] == loaded.measure(audio, 16_000)
    assert len({str(row) for row in rows.values()}) > 10


def test_a_feature_of_the_user_gives_columns_and_its_errors_name_the_sample(project):
    config = _config(project, features=(MINE,))
    with pytest.raises(BuildError, match=r"features \(mine\): \S+: sample 'clip19-\w+': .*ValueError: an odd length"):
        bring_columns_up_to_date(project.output, config, "mine")
    project.remove("clip19.wav")
    project.build()
    bring_columns_up_to_date(project.output, config, "mine")
    rows = _rows(project, "mine")
    assert {row["about"] for row in rows.values()} == {"8000 Hz"}
    assert all(0.05 < row["size"] < 0.5 for row in rows.values())


def test_another_setting_or_file_has_another_digest(project):
    def digest(**changes):
        config = _config(project, features=({**VAD, **changes},))
        return rows_of_set(project.output, read_header(project.output), "vad", config).popitem()[1]

    assert digest() == digest()
    assert len({digest(), digest(threshold=0.4), digest(field="audio")}) == 3


def test_a_view_chooses_samples_by_a_feature(project):
    config = _config(project, views={"loud": {"where": "loudness.loudness_lufs > -70"}})
    for name in config.column_sets:
        bring_columns_up_to_date(project.output, config, name)
    assert _num_chosen(project, config) == 1


def test_a_view_chooses_samples_by_speech(project):
    config = _config(project, features=MORE[:1], views={"loud": {"where": "vad.speech_share > 0.5"}})
    for name in config.column_sets:
        bring_columns_up_to_date(project.output, config, name)
    shares = [row["speech_share"] for row in _rows(project, "vad").values()]
    assert 0 < _num_chosen(project, config) == sum(share > 0.5 for share in shares)


def _num_chosen(project: Project, config: DatasetConfig) -> int:
    view, is_new = build_view(project.output, WantedView.of(config, "loud"))
    assert is_new
    return sum(split.num_chosen for split in view.snapshot.splits.values())


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
    "a kind": ({"features": [{"name": "a", "kind": "speach"}]}, "the kinds are custom, levels, quality, speech"),
    "a setting": (
        {"features": [{**FEATURES[0], "file": "a"}]},
        "feature levels: unknown setting .file.",
    ),
    "a field": ({"features": [{**FEATURES[0], "field": "vocals"}]}, r"features \(loudness\).field: no audio field"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_wrong_features_are_named(changes, words, tmp_path):
    with pytest.raises(ValidationError, match=words):
        _config(Project(tmp_path), **changes)
