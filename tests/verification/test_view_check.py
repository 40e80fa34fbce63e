"""A view is compared with its audio snapshot, and its totals with its counts."""

import pytest

from headrace.locate.outputs import view_folders
from headrace.stores.storage import LocalStorage
from headrace.verification.view_check import faults_of_view


def faults(output):
    storage = LocalStorage(output)
    (view,) = view_folders(storage)
    return [f"{fault.where}: {fault.what}" for fault in faults_of_view(storage.at("audio"), view)]


def test_a_sound_view_has_no_faults(output):
    assert faults(output) == []


@pytest.mark.parametrize("kind", ["counts", "totals"])
def test_a_damaged_or_missing_file_of_the_newest_snapshot_is_named(output, kind):
    (path,) = (output / "views/odd/snapshots").glob(f"*.{kind}")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert [path.name in fault for fault in faults(output)] == [True]
    path.unlink()
    assert [path.name in fault for fault in faults(output)] == [True]


def test_a_damaged_snapshot_is_named(output):
    (path,) = (output / "views/odd/snapshots").glob("*.json")
    path.write_bytes(path.read_bytes()[:-5])
    assert [path.name in fault for fault in faults(output)] == [True]


def test_a_view_whose_audio_snapshot_is_gone_does_no_harm(output):
    (output / "audio/snapshots/00000001.json").unlink()
    assert faults(output) == []
