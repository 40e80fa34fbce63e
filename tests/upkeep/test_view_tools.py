"""Commands that know views: gc keeps what a kept view needs, verify finds damage, inspect shows what is chosen."""

import os
import time

import pytest
from rich.console import Console

from headrace.assemble.views import WantedView, build_view
from headrace.cli.tables import print_facts
from headrace.errors import ConfigError, FormatError
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import ViewDefinition
from headrace.format.snapshots.snapshots import read_snapshot, snapshot_numbers
from headrace.locate import locate
from headrace.stores.storage import LocalStorage
from headrace.upkeep.gc import collect, find_garbage
from headrace.upkeep.inspection import inspect
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset

OLD_SECONDS = 3 * 86_400


def number(key):
    return int(key.removeprefix("clip"))


def build(output, where):
    return build_view(output, WantedView("some", ViewDefinition(where), ("metadata",)))[0]


@pytest.fixture
def output(tmp_path):
    """Two audio snapshots; views of the first, then of the second."""
    folder = tmp_path / "output"
    write_dataset(folder, {"train": clips(23), "test": clips(7, first=200)})
    write_columns(folder, "metadata", {"n": ("int", number)})
    storage = LocalStorage(folder)
    build(storage, "n < 5 or n > 203")
    build(storage, "n < 6 or n > 203")
    return storage


def aged(output):
    for path in output.root.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - OLD_SECONDS,) * 2)


def gc(output, keep=1):
    aged(output)
    return collect(output, find_garbage(output, keep=keep, now_seconds=time.time()))


def faults(output):
    target = find_target(str(output.root))
    return verify(target, Depth(num_threads=1)).faults


def test_gc_removes_old_snapshots_of_a_view_and_the_files_that_only_they_name(output):
    removed = [entry.path for entry in gc(output)["views/some"]]
    view = output.at("views/some")
    assert snapshot_numbers(view) == [2]
    assert sorted(path.rpartition(".")[2] for path in removed) == ["counts", "json", "totals"]
    there = {entry.path for entry in view.list("snapshots/")}
    assert there == {"snapshots/00000002.json", *(file.path for file in read_view(view).snapshot.files)}
    assert faults(output) == []
    assert build(output, "n < 6 or n > 203").number == 2


def test_gc_keeps_the_audio_snapshot_of_a_kept_view(output):
    write_dataset(output.root, {"train": clips(9)})
    write_dataset(output.root, {"train": clips(10)})
    gc(output)
    assert snapshot_numbers(output.at("audio")) == [1, 3]
    assert read_snapshot(output.at("audio"), 1).snapshot.num_samples == 30


def test_gc_leaves_young_files_alone(output):
    found = find_garbage(output, keep=1, now_seconds=time.time())
    assert all(not garbage.entries for garbage in found)


@pytest.mark.medium
@pytest.mark.parametrize("suffix", [".json", ".totals", ".counts"])
def test_verify_names_a_damaged_file_of_a_view(output, suffix):
    assert faults(output) == []
    folder = output.root / "views/some/snapshots"
    name = max(path.name for path in folder.glob(f"*{suffix}"))
    blob = bytearray((folder / name).read_bytes())
    blob[-3] ^= 1
    (folder / name).chmod(0o644)
    (folder / name).write_bytes(blob)
    assert any(name in fault.where for fault in faults(output))


def test_the_folder_of_a_view_has_nothing_to_verify_by_itself(output):
    with pytest.raises(ConfigError, match=r"views/some: a view, .*name its output"):
        find_target(str(output.root / "views/some"))


def test_verify_names_a_missing_file_of_a_view(output):
    (*_, path) = sorted((output.root / "views/some/snapshots").glob("*.counts"))
    path.unlink()
    (fault,) = faults(output)
    assert path.name in fault.where


def test_verify_names_the_views_whose_audio_is_gone(output):
    write_dataset(output.root, {"train": clips(9)})
    for path in (output.root / "audio/snapshots").glob("00000001*"):
        path.unlink()
    found = [fault for fault in faults(output) if "views" in fault.where]
    assert any("audio snapshot 1 is missing in" in fault.what for fault in found), found


def test_inspect_shows_what_a_view_chooses(output):
    console = Console(record=True, width=120)
    print_facts(console, inspect(str(output.root)))
    text = console.export_text()
    assert "views/some · snapshot 2 " in text
    assert "of audio snapshot 1: where n < 6 or n > 203" in text
    assert "26.1%" in text  # 6 of 23


def test_a_view_is_not_taken_for_a_folder_of_shards(output):
    with pytest.raises(FormatError, match=r"a snapshot of a view, which has no shards: name the audio, and pass view="):
        locate(f"{output.root}/views/some").one_folder("reading").snapshot()


@pytest.mark.medium
def test_gc_removes_what_a_killed_writer_of_a_view_left(output):
    left = output.root / "views/some/snapshots/00000003-train-0000-000000000000.counts"
    left.write_bytes(b"left")
    removed = [entry.path for entry in gc(output, keep=9)["views/some"]]
    assert removed == [f"snapshots/{left.name}"]
    assert faults(output) == []
