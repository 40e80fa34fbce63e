"""The sensor restores a `sizes.json`, a table of shards or a report that is missing or wrong, as a build does.

It reads none while none changed.
"""

import json

import pytest

from headrace_dagster.sensors import due_work
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

INDEXES = {"audio": "sizes_index", "latents/mel": "mel_sizes_index", "columns/metadata": "metadata_columns_index"}


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("sizes"))
    project.write_titled_tones(8)
    project.write_yaml(
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}], views={"some": {"where": "title != 'x'"}}
    )
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def deleted(file):
    file.unlink()


def emptied(file):
    file.write_text("{}")


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-3])


def with_another_count(file):
    """Another number of the same length."""
    sizes = json.loads(file.read_bytes())
    name, count = next(iter(sizes.items()))
    file.write_bytes(file.read_bytes().replace(f'"{name}": {count}'.encode(), f'"{name}": {count + 1}'.encode()))


HARM = [deleted, emptied, cut_short, with_another_count]


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("part", INDEXES)
def test_a_wrong_file_is_written_again_and_nothing_else_is_made(daemon, part, harm):
    file = daemon.project.output / part / "sizes.json"
    before = daemon.project.files()
    harm(file)
    assert daemon.project.files() != before
    (made,) = daemon.settle()
    assert (made.assets, made.partition, made.success) == ({INDEXES[part]}, None, True)
    assert daemon.project.files() == before
    assert daemon.settle() == []


def test_all_files_at_once_after_the_cursor_was_lost(daemon):
    before = daemon.project.files()
    for part in INDEXES:
        (daemon.project.output / part / "sizes.json").unlink()
    daemon.restart()
    (made,) = daemon.settle()
    assert made.assets == set(INDEXES.values())
    assert daemon.project.files() == before


def test_a_file_that_is_lost_again_and_again_is_written_again_each_time(daemon):
    file = daemon.project.output / "audio/sizes.json"
    for _ in range(4):
        file.unlink()
        assert [run.success for run in daemon.settle()] == [True]
        assert file.exists()


@pytest.mark.parametrize("part", INDEXES)
def test_a_lost_part_of_the_table_of_shards_is_written_again(daemon, part):
    before = daemon.project.files()
    file = next((daemon.project.output / part / "snapshots").glob("*.shards"))
    file.unlink()
    assert [run.assets for run in daemon.settle()] == [{INDEXES[part]}]
    file.write_bytes(b"")
    assert [run.assets for run in daemon.settle()] == [{INDEXES[part]}]
    assert daemon.project.files() == before


def test_a_report_that_is_lost_is_written_again_each_time(daemon):
    for _ in range(2):
        (daemon.project.output / "report.html").unlink()
        assert [run.assets for run in daemon.settle()] == [{"dataset_report"}]


def test_a_yaml_that_is_changed_there_and_back_again_and_again_is_followed_each_time(daemon):
    some = {"some": {"where": "title != 'x'"}}
    for views in [{}, some] * 2:
        daemon.project.write_yaml(views=views)
        daemon.reload()
        (made,) = daemon.settle()
        assert "dataset_report" in made.assets
        assert daemon.settle() == []


def test_no_file_is_read_while_nothing_changed(daemon, monkeypatch):
    daemon.settle()  # the restored files are newer than those of the cursor
    monkeypatch.setattr(due_work, "has_true_sizes", None)
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == "up to date"
