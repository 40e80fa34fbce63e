"""Each column declared frame-aligned has a check, whose failure blocks the snapshot."""

import json

import pytest

from headrace_dagster.assets.gates import alignment_check
from tests.support.projects import Graph, Project, failed_checks

pytestmark = pytest.mark.medium

NUM_LATENT = 6  # of 0.05 s at log-mel's 100 Hz
MEL = {"name": "mel", "encoder": {"kind": "log_mel"}}


def write_labels(project: Project, wrong: dict[str, object] | None = None) -> None:
    """A metadata table with one chord per latent frame, except for the recordings in `wrong`."""
    rows = []
    for path in sorted(project.recordings.glob("*.wav")):
        chords = (wrong or {}).get(path.stem, [1] * NUM_LATENT)
        rows.append({"path": path.name, "chord_indices": chords, "beat-times": [0.5] * NUM_LATENT, "title": path.stem})
    (project.folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def project(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(4)
    write_labels(project)
    source = {"uri": str(project.recordings), "metadata": str(tmp_path / "labels.jsonl"), "settle_seconds": 0}
    project.write_yaml(
        source=source,
        splits={"train": 1.0},
        shards={"samples_per_shard": 4, "partitions": {"train": 1}},
        latents=[{**MEL, "frame_aligned": ["chord_indices", "beat-times"]}],
    )
    return project


def encode(graph: Graph):
    """Everything up to the latents of the only partition. Returns that run."""
    graph.build()
    return graph.run(graph.keys.latent_shards("mel"), "train-0000")


def test_aligned_columns_pass_and_the_snapshot_advances(project):
    graph = Graph(project)
    result = encode(graph)
    checks = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    assert set(checks) == {
        "conservation",
        "index_matches_tar",
        "frame_aligned_chord_indices",
        alignment_check("beat-times"),
    }
    assert all(evaluation.passed for evaluation in checks.values())
    assert checks["frame_aligned_chord_indices"].metadata["misaligned"].value == 0
    assert graph.run(graph.keys.latents_index("mel")).success


def test_a_misaligned_column_is_named_and_blocks_the_snapshot(project):
    """The table has a row per fault: shard, key, column, length found and expected; corrected labels let it pass."""
    graph = Graph(project)
    encode(graph)
    assert graph.run(graph.keys.latents_index("mel")).success
    sizes = project.output / "latents/mel/sizes.json"
    before = sizes.read_bytes()
    write_labels(project, {"tone001": [1] * (NUM_LATENT + 2), "tone003": None})
    result = encode(graph)
    assert not result.success
    assert failed_checks(result) == {"frame_aligned_chord_indices"}
    (evaluation,) = (each for each in result.get_asset_check_evaluations() if not each.passed)
    rows = [record.data for record in evaluation.metadata["faults_table"].records]
    shard = rows[0]["shard"]
    assert shard.startswith("latent_train_0000_000000-")
    keys = {row["key"].rsplit("-", 1)[0]: row for row in rows}
    assert {name: (row["column"], row["found"], row["expected"]) for name, row in keys.items()} == {
        "tone001": ("chord_indices", "8", 6),
        "tone003": ("chord_indices", "not a list", 6),
    }
    assert f"{shard}: sample '{keys['tone001']['key']}': column 'chord_indices' has 8 entries" in evaluation.description
    refused = graph.run(graph.keys.latents_index("mel"))
    assert not refused.success
    assert sizes.read_bytes() == before
    write_labels(project)
    assert encode(graph).success
    assert graph.run(graph.keys.latents_index("mel")).success


def test_a_column_no_longer_declared_blocks_nothing(project):
    write_labels(project, {"tone001": [1]})
    graph = Graph(project)
    assert not encode(graph).success
    project.write_yaml(latents=[MEL])
    graph.reload()
    assert graph.run(graph.keys.latents_index("mel")).success


@pytest.mark.parametrize(("column", "reason"), [("chords", "is not there"), ("title", "is String, not a list")])
def test_a_column_that_cannot_be_aligned_fails_the_scan(project, column, reason):
    """Before hours of encoding; the message lists the columns that could be."""
    project.write_yaml(latents=[{**MEL, "frame_aligned": [column]}])
    result = Graph(project).scan()
    assert failed_checks(result) == {"schema"}
    (evaluation,) = (each for each in result.get_asset_check_evaluations() if not each.passed)
    assert f"the metadata column {column!r} {reason}" in evaluation.description
    assert "columns of lists: beat-times, chord_indices" in evaluation.description


def test_columns_with_other_characters_have_checks_with_distinct_names():
    assert alignment_check("chord_indices") == "frame_aligned_chord_indices"
    assert len({alignment_check(column) for column in ("a b", "a_b", "a-b")}) == 3
