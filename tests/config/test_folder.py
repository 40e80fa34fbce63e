"""Which files of a folder are datasets, and the errors about the others."""

import pytest

from headrace.config.folder import find_configs
from headrace.errors import ConfigError


def write(folder, name, output="out", more=""):
    (folder / name).write_text(f"source: {{uri: recordings}}\noutput: {{uri: {output}}}\n{more}")


def test_a_folder_gives_its_datasets_by_name(tmp_path):
    write(tmp_path, "b.yaml", "one")
    write(tmp_path, "a.yml", "two")
    write(tmp_path, "readme.md")
    found = find_configs(tmp_path, tmp_path)
    assert ([config.name for config in found.configs], found.faults) == (["a", "b"], ())
    with pytest.raises(ConfigError, match="HEADRACE_DATASETS"):
        find_configs(tmp_path / "absent", tmp_path)


def test_an_invalid_file_is_reported_and_the_others_are_found(tmp_path):
    write(tmp_path, "good.yaml")
    write(tmp_path, "typo.yaml", "other", "audoi: {}\n")
    (tmp_path / "half.yaml").write_text("source: {uri: x")
    write(tmp_path, "odd.yaml", "'s3://[odd/x'")
    found = find_configs(tmp_path, tmp_path)
    assert [config.name for config in found.configs] == ["good"]
    assert [fault.partition(": ")[0] for fault in found.faults] == [
        str(tmp_path / f"{n}.yaml") for n in ("half", "odd", "typo")
    ]


def test_two_files_of_one_dataset_are_both_rejected(tmp_path):
    write(tmp_path, "birds.yaml", "one")
    write(tmp_path, "birds.yml", "two")
    found = find_configs(tmp_path, tmp_path)
    assert found.configs == ()
    assert all("describes a data set with the same name; rename one" in fault for fault in found.faults)


@pytest.mark.parametrize("other", ["data/birds", "data/birds/", "./data/birds", "data/x/../birds"])
def test_two_files_that_write_to_one_output_are_both_rejected(tmp_path, other):
    write(tmp_path, "birds.yaml", "data/birds")
    write(tmp_path, "copy.yaml", other)
    write(tmp_path, "third.yaml", "data/third")
    found = find_configs(tmp_path, tmp_path)
    assert [config.name for config in found.configs] == ["third"]
    assert "is also the output of copy.yaml" in found.faults[0]
    assert "is also the output of birds.yaml" in found.faults[1]


@pytest.mark.parametrize("other", ["{0}/data/birds", "file://{0}/data/%62irds", "{0}/link/birds", "link/birds"])
def test_relative_paths_absolute_paths_and_links_to_one_output_are_recognized(tmp_path, other):
    (tmp_path / "link").symlink_to(tmp_path / "data")
    write(tmp_path, "birds.yaml", "data/birds")
    write(tmp_path, "copy.yaml", other.format(tmp_path))
    assert len(find_configs(tmp_path, tmp_path).faults) == 2


def test_all_spellings_of_the_home_folder_are_one_output(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    write(tmp_path, "birds.yaml", "~/birds")
    write(tmp_path, "copy.yaml", "/home/somebody/birds")
    assert len(find_configs(tmp_path, tmp_path).faults) == 2
