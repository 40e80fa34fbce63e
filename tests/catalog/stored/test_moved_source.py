"""An output belongs to one data set: another one, or another source, replaces it only if the YAML says so."""

import dagster as dg
import pytest

from headrace.catalog.stored.header import read_current_header, read_header
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage
from headrace_dagster.assets.maintenance import gc_job
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from tests.support.builds import write_wav


@pytest.fixture
def output(tmp_path):
    return LocalStorage(tmp_path / "output")


def recordings(folder, *seeds):
    """A folder with a recording for each seed, which decides the content."""
    for seed in seeds:
        write_wav(folder / f"{folder.name}-{seed}.wav", seed)
    return folder


def config_of(folder, output, name="birds", **more):
    return DatasetConfig(
        name=name,
        source={"uri": str(folder), "settle_seconds": 0},
        splits={"all": 1.0},
        shards={"partitions": {"all": 1}},
        output={"uri": output.uri, **more},
    )


def scan(folder, output, name="birds", **more):
    return update_catalog(config_of(folder, output, name, **more), open_source(folder), None, output)


def test_a_data_set_of_another_name_cannot_replace_an_output_by_mistake(tmp_path, output):
    first, second = recordings(tmp_path / "first", 1, 2), recordings(tmp_path / "second", 1, 2)
    scan(first, output)
    before = output.read("catalog/catalog.jsonl")
    with pytest.raises(CatalogError, match=r"belongs to the data set birds \(source .*/first\).*takes_over: birds"):
        scan(second, output, "whales")
    with pytest.raises(CatalogError, match="belongs to the data set birds"):
        scan(second, output, "whales", takes_over="fish")
    whales = config_of(second, output, "whales")
    assert read_current_header(output, whales) is None
    with pytest.raises(CatalogError, match="belongs to the data set birds"):
        partition_recordings(output, whales, "all-0000")
    assert output.read("catalog/catalog.jsonl") == before


def test_a_data_set_that_takes_over_owns_the_output_from_then_on(tmp_path, output):
    first, second = recordings(tmp_path / "first", 1, 2), recordings(tmp_path / "second", 3, 4)
    scan(first, output)
    scan(second, output, "whales", takes_over="birds")
    scan(second, output, "whales")  # the YAML may forget it again
    assert read_header(output).totals.dataset == "whales"
    with pytest.raises(CatalogError, match="belongs to the data set whales"):
        scan(first, output)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("seeds", "is_kept"),
    [((1, 2, 3, 4), True), ((1, 2, 9), True), ((1, 2, 5, 6, 7, 8), True), ((1, 5, 6, 7), False), ((5, 6), False)],
)
def test_a_source_that_moved_needs_nothing_with_half_of_its_recordings(tmp_path, output, seeds, is_kept):
    scan(recordings(tmp_path / "first", 1, 2, 3, 4), output)
    moved = recordings(tmp_path / "moved", *seeds)
    if is_kept:
        scan(moved, output)
        assert read_header(output).totals.source == str(moved)
        return
    before = output.read("catalog/catalog.jsonl")
    with pytest.raises(CatalogError, match=r"[01] of 4 are in .*/moved; another project.*takes_over: birds"):
        scan(moved, output)
    assert output.read("catalog/catalog.jsonl") == before
    scan(moved, output, takes_over="birds")
    scan(moved, output)


def test_a_source_may_change_completely_in_its_place(tmp_path, output):
    folder = recordings(tmp_path / "first", 1, 2)
    scan(folder, output)
    for path in folder.iterdir():
        path.unlink()
    scan(recordings(folder, 7, 8), output)


def test_a_catalog_without_recordings_may_be_replaced_from_anywhere(tmp_path, output):
    (tmp_path / "empty").mkdir()
    scan(tmp_path / "empty", output)
    scan(recordings(tmp_path / "first", 1), output)


@pytest.mark.medium
def test_garbage_of_another_data_set_is_not_collected(tmp_path, output):
    scan(recordings(tmp_path / "first", 1), output)
    before = sorted(entry.path for entry in output.list(""))

    def collect(name):
        job = gc_job(ProjectDataset.named(config_of(tmp_path / "first", output, name)))
        return job.execute_in_process(resources={"headrace_storage": StorageResource()}, raise_on_error=False)

    assert collect("birds").success
    result = collect("whales")
    assert not result.success
    (failure,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    assert "belongs to the data set birds" in failure.step_failure_data.error_display_string
    assert sorted(entry.path for entry in output.list("")) == before
