"""The keys planned for shards, which only a new plan of their partition reads."""

import pytest

from headrace.errors import FormatError
from headrace.format.manifests.manifests import keys_path
from headrace.format.manifests.planned_keys import keys_fault, pack_keys, read_planned_keys
from tests.support.builds import Project, check


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    for number in range(7):
        made.put(f"clip{number}.wav", num_frames=60 + number)
    (made.folder / "source/broken.wav").write_bytes((made.folder / "source/clip0.wav").read_bytes()[:60])
    return made


def files(project, build):
    """Path of the keys, and manifest, of each partition with shards."""
    found = [made.manifest for made in build.partitions.values() if made.manifest.manifest.shards]
    return [(keys_path(m.manifest.partition, m.number, m.manifest.keys), m) for m in found]


def test_manifests_hold_no_keys(project):
    build = project.build()
    for path, numbered in files(project, build):
        blob = project.shards.read(f"manifests/{numbered.manifest.partition}/00000001.json")
        for keys in read_planned_keys(project.shards, numbered):
            assert not any(key.encode() in blob for key in keys)
            assert all(f"{key} ".encode() in project.shards.read(path) for key in keys)


@pytest.mark.medium
def test_without_the_file_samples_keep_their_places_by_the_indexes(project):
    build = project.build()
    for path, _ in files(project, build):
        project.shards.delete(path)
    project.put("later.wav", num_frames=50)
    after = check(project, project.build())
    places = {key: name.rpartition("-")[0] for name, keys in build.contents.items() for key in keys}
    for name, keys in after.contents.items():
        assert all(places.get(key, name.rpartition("-")[0]) == name.rpartition("-")[0] for key in keys)


@pytest.mark.medium
def test_a_lost_shard_and_its_keys_are_made_again(project):
    build = project.build()
    before = project.files()
    path, numbered = files(project, build)[0]
    project.shards.delete(path)
    project.shards.delete(numbered.manifest.shards[-1].name)
    check(project, project.build())
    assert project.files() == before


@pytest.mark.medium
def test_a_damaged_file_is_an_error_that_names_it(project):
    build = project.build()
    path, numbered = files(project, build)[0]
    assert keys_fault(project.shards, numbered) is None
    project.shards.write(path, project.shards.read(path)[:-2])
    with pytest.raises(FormatError, match=f"{path}: does not have the digest in its manifest"):
        read_planned_keys(project.shards, numbered)
    assert "does not have the digest" in keys_fault(project.shards, numbered)
    project.shards.delete(path)
    assert "missing; restore it" in keys_fault(project.shards, numbered)


def test_the_file_is_text_with_an_empty_line_between_shards():
    assert pack_keys([["a", "b"], ["c"]]) == b"a\nb\n\nc\n"
