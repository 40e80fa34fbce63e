"""Duplicates, excluded keys and the rows of the metadata, through the graph and its sensors."""

import json
import tarfile

import dagster as dg
import polars as pl
import pytest

from headrace.catalog.stored.parts import existing_catalog, read_catalog
from headrace_dagster.resources.storage import StorageResource
from tests.support.built import BuiltGraph, SettledDaemon
from tests.support.daemons import Daemon, partitions_made
from tests.support.projects import Graph, Project, failed_checks
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


def evaluations(result):
    return {found.check_name: found for found in result.get_asset_check_evaluations()}


def message(result):
    return next(e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure)


def catalog(project):
    return existing_catalog(StorageResource().output(project.config())).whole()


# Duplicates


@pytest.fixture(scope="module")
@nothing_drawn()
def copied(tmp_path_factory):
    """Twelve files of the same bytes, in both splits, and one that is alone."""
    project = Project(tmp_path_factory.mktemp("copies"))
    for number in range(12):
        project.write_tone(f"copy{number:02d}", hz=300)
    project.write_tone("other", hz=700)
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    return BuiltGraph(graph)


def with_duplicates(graph, mode):
    source = {"uri": str(graph.project.recordings), "settle_seconds": 0, "duplicates": mode}
    graph.project.write_yaml(source=source)
    graph.reload()


def test_copies_in_different_splits_warn_and_block_nothing(copied):
    graph = copied.put_back()
    result = graph.scan()
    assert result.success
    found = evaluations(result)["no_duplicates_across_splits"]
    assert not found.passed
    assert found.severity == dg.AssetCheckSeverity.WARN
    assert found.metadata["findings"].value == 1
    assert found.description.startswith("1 content is in several splits; source.duplicates: group")
    assert "copy00.wav (" in found.description
    assert "(train)" in found.description
    assert "(test)" in found.description
    graph.build()
    assert sum(graph.project.sizes().values()) == 13


def test_grouped_copies_are_in_one_partition_and_only_what_moved_is_rebuilt(copied):
    graph = copied.put_back()
    alone = graph.project.partition_of("other.wav")
    with_duplicates(graph, "group")
    result = graph.scan()
    assert failed_checks(result) == {"splits_have_samples"}  # the copies are in the split of the other recording
    assert evaluations(result)["no_duplicates_across_splits"].metadata["largest_group"].value == 12
    (home,) = {graph.project.partition_of(f"copy{number:02d}.wav") for number in range(12)}
    assert graph.project.partition_of("other.wav") == alone
    graph.build()
    assert sum(graph.project.sizes().values()) == 13
    split = home.partition("-")[0]
    assert sum(count for name, count in graph.project.sizes().items() if name.startswith(split)) >= 12
    assert graph.stale_partitions() == []


def test_dropped_copies_are_rejected_and_the_first_is_built(copied):
    graph = copied.put_back()
    with_duplicates(graph, "drop")
    result = graph.scan()
    # 11 of 13 are gone, as the YAML asks, and the other two are in one split.
    assert failed_checks(result) == {"dropped_audio", "splits_have_samples"}
    graph.build()
    assert sum(graph.project.sizes().values()) == 2
    assert catalog(graph.project).rejected["code"].unique().to_list() == ["duplicate"]
    numbers = evaluations(result)["conservation"].metadata
    assert (numbers["files_found"].value, numbers["recordings"].value, numbers["rejected"].value) == (13, 2, 11)


# Excluded keys


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    """Twelve recordings with latents; a table of keys that names nothing of them."""
    project = Project(tmp_path_factory.mktemp("excluded"))
    project.write_tones(12)
    project.folder.joinpath("keys.csv").write_text("key\nnobody\n")
    project.write_yaml(latents=LATENTS, exclude=str(project.folder / "keys.csv"))
    daemon = Daemon(project)
    assert all(run.success for run in daemon.settle())
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def keys_of(project, folder):
    """Keys of all samples in the shards of the newest `sizes.json`."""
    names = json.loads((project.output / folder / "sizes.json").read_bytes())
    found = []
    for name in names:
        with tarfile.open(project.output / folder / name) as tar:
            found += [member.partition(".")[0] for member in tar.getnames() if member.endswith(".json")]
    return sorted(found)


def test_a_changed_table_of_keys_rebuilds_what_it_touches_with_its_latents(daemon):
    project = daemon.project
    path, key = catalog(project).recordings.select("path", "key").row(3)
    before = keys_of(project, "audio")
    assert daemon.settle() == []
    (project.folder / "keys.csv").write_text(f"key\n{key}\n")
    made = daemon.settle()
    assert all(run.success for run in made)
    assert len(made) == 2
    assert catalog(project).rejected.select("path", "key", "code").rows() == [(path, key, "excluded")]
    assert len(partitions_made(made)) == 1
    assert keys_of(project, "audio") == keys_of(project, "latents/mel") == [name for name in before if name != key]
    (project.folder / "keys.csv").write_text("key\n")
    assert partitions_made(daemon.settle()) == partitions_made(made)
    assert keys_of(project, "audio") == keys_of(project, "latents/mel") == before


def test_other_segments_that_the_keys_name_after_another_cut_are_looked_up_again(daemon):
    project = daemon.project
    (key,) = catalog(project).recordings.filter(pl.col("path") == "tone003.wav")["key"]
    (project.folder / "keys.csv").write_text(f"key\n{key}-s000001\n")
    daemon.settle()
    assert catalog(project).rejected["code"].to_list() == ["excludes_nothing"]
    project.write_yaml(audio={"segment_seconds": 0.03}, latents=[])
    daemon.reload()
    assert all(run.success for run in daemon.settle())
    assert catalog(project).rejected.select("path", "code").rows() == [("tone003.wav", "excluded")]
    assert len(keys_of(project, "audio")) == 12 * 2 - 1


def test_keys_that_name_nothing_are_warned_of_and_the_first_ten_are_named(tmp_path):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml(exclude=[f"key{number:02d}" for number in range(14)])
    result = Graph(project).scan()
    assert result.success
    found = evaluations(result)["excluded_keys_found"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.description.startswith("14 keys of exclude name no sample")
    assert "key09\n… and 4 more" in found.description
    assert "key10" not in found.description


def test_a_missing_table_of_keys_is_named(tmp_path):
    project = Project(tmp_path)
    project.write_tones(1)
    project.write_yaml(exclude="lost.csv")
    assert "lost.csv (exclude): there is no such file" in message(Graph(project).scan())


# Splits


def test_an_empty_split_is_warned_of_until_it_has_a_sample(tmp_path):
    project = Project(tmp_path)
    project.write_tones(2)
    project.write_yaml(splits={"train": 0.999, "test": 0.001})
    graph = Graph(project)
    result = graph.scan()
    assert result.success
    found = evaluations(result)["splits_have_samples"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "split test has none of 2 samples, with a share of 0.001" in found.description
    project.write_yaml(splits={"train": 1.0, "test": 0.0})
    graph.reload()
    assert evaluations(graph.scan())["splits_have_samples"].passed


# Rows of the metadata


def test_rows_of_one_recording_that_differ_fail_the_scan_and_store_no_catalog(tmp_path):
    project = Project(tmp_path)
    project.write_titled_tones(3)
    with (project.folder / "metadata.csv").open("a") as table:
        table.write("tone001.wav,another\n")
    result = Graph(project).scan()
    assert not result.success
    assert "'tone001.wav' (rows 2, 4 differ in title)" in message(result)
    assert read_catalog(StorageResource().output(project.config())) is None


def test_equal_rows_are_merged_and_counted_on_the_catalogs_page(tmp_path):
    project = Project(tmp_path)
    project.write_titled_tones(3)
    with (project.folder / "metadata.csv").open("a") as table:
        table.write("./tone001.wav,title 1\n")
    graph = Graph(project)
    assert graph.scan().success
    event = graph.instance.get_latest_materialization_event(graph.keys.catalog)
    assert event.asset_materialization.metadata["merged_rows"].value == 1


def test_rows_become_samples_through_the_graph(copied):
    graph = copied.put_back()
    table = graph.project.recordings.parent / "rows.csv"
    spans = "".join(f"copy00.wav,0.0{tenth},0.01\n" for tenth in range(3))
    table.write_text(f"audio_filepath,offset,duration\n{spans}copy00.wav,0.01,\nother.wav,99,1\nother.wav,0.02,nan\n")
    columns = {"path": "audio_filepath", "start": "offset", "duration": "duration"}
    source = {"uri": str(graph.project.recordings), "settle_seconds": 0, "metadata": str(table)}
    graph.project.write_yaml(source={**source, "samples": "rows", "columns": columns})
    graph.reload()
    result = graph.scan()
    assert result.success
    counts = {name: value.value for name, value in evaluations(result)["conservation"].metadata.items()}
    assert counts == {
        "files_found": 13,
        "recordings": 1,
        "rejected": 12,
        "files_unsettled": 0,
        "rows_found": 6,
        "rows_accepted": 4,
        "rows_rejected": 2,
        "rows_merged": 0,
        "rows_waiting": 0,
    }
    graph.build()
    assert sum(graph.project.sizes().values()) == 4


def test_a_nemo_manifest_is_reported_until_the_yaml_says_what_its_columns_mean(tmp_path):
    project = Project(tmp_path)
    project.write_tones(4)
    table = tmp_path / "manifest.json"
    rows = [
        {"audio_filepath": f"tone{i:03d}.wav", "duration": 0.05, "channel": c, "_skipme": int(i == 3), "id": f"t{i}{c}"}
        for i in range(4)
        for c in range(1 + (i == 0))
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {
        "uri": str(project.recordings),
        "settle_seconds": 0,
        "metadata": str(table),
        "samples": "rows",
        "columns": {"path": "audio_filepath", "duration": "duration", "key": "id"},
    }
    project.write_yaml(source=source)
    graph = Graph(project)
    result = graph.scan()
    assert result.success
    assert failed_checks(result) == {"rows_name_different_spans", "columns_are_used"}
    found = evaluations(result)
    assert "tone000.wav names a span" in found["rows_name_different_spans"].description
    assert "source.where" in found["columns_are_used"].description

    project.write_yaml(source={**source, "where": "_skipme = 0 and channel = 0"})
    graph.reload()
    result = graph.scan()
    assert failed_checks(result) == {"dropped_audio"}
    numbers = {name: value.value for name, value in evaluations(result)["conservation"].metadata.items()}
    assert (numbers["rows_left_out"], numbers["files_left_out"], numbers["rejected"]) == (2, 1, 0)
    event = graph.instance.get_latest_materialization_event(graph.keys.catalog)
    assert event.asset_materialization.metadata["rows_left_out"].value == 2

    table.write_text(table.read_text().replace('"_skipme": 0', '"_skipme": 0.0'))
    result = graph.scan()
    assert failed_checks(result) == {"column_types"}
    assert "'_skipme' was int and is float now" in evaluations(result)["column_types"].description
    assert failed_checks(graph.scan()) == set()
