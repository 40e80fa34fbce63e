"""Whether the file of a data set is as it was loaded, and how often it is read."""

import pytest

from headrace_dagster.sensors import loaded
from headrace_dagster.sensors.loaded import DatasetFolder, LoadedFile

TEXT = "source: {uri: x}\noutput: {uri: %s}\n"


@pytest.fixture
def folder(tmp_path):
    for name in ("birds", "whales"):
        (tmp_path / f"{name}.yaml").write_text(TEXT % name)
    return DatasetFolder(tmp_path, tmp_path)


def test_a_data_set_is_held_while_its_file_in_the_folder_differs_from_what_was_loaded(folder):
    path = folder.path / "birds.yaml"
    config = folder.configs_now()[0]["birds"]
    assert folder.why_held(config) is None
    path.write_text(TEXT % "birds" + "audio: {bits_per_sample: 24}\n")
    assert folder.why_held(config).startswith("held back: the YAML file of birds changed and is not loaded")
    path.write_text(TEXT % "birds")
    assert folder.why_held(config) is None
    path.unlink()
    assert folder.why_held(config) is not None


def test_a_data_set_of_a_component_is_held_while_its_file_differs_from_what_was_loaded(folder):
    path = folder.path / "birds.yaml"
    config = folder.configs_now()[0]["birds"]
    origin = LoadedFile.now(path)
    assert origin.why_held(config) is None
    path.write_text(TEXT % "birds" + "\n")
    assert origin.why_held(config) == f"held back: {path} of birds changed; reload the code location"
    path.write_text(TEXT % "birds")
    assert origin.why_held(config) is None
    path.unlink()
    assert origin.why_held(config) is not None


def test_unchanged_files_are_read_once(folder, monkeypatch):
    read = []
    find = loaded.find_configs
    monkeypatch.setattr(loaded, "find_configs", lambda *where: read.append(where) or find(*where))
    first, faults = folder.configs_now()
    assert (sorted(first), faults) == (["birds", "whales"], {})
    assert folder.configs_now()[0] is first
    (folder.path / "birds.yaml").write_text(TEXT % "birds" + "adio: {}\n")
    (name,), faults = folder.configs_now()
    assert name == "whales"
    assert list(faults) == [folder.path / "birds.yaml"]
    assert "adio" in faults[folder.path / "birds.yaml"]
    assert len(read) == 2


def test_a_missing_folder_has_no_data_sets_and_says_so(tmp_path):
    configs, faults = DatasetFolder(tmp_path / "gone", tmp_path).configs_now()
    assert configs == {}
    assert "no such folder of data sets" in faults[tmp_path / "gone"]
