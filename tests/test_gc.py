"""gc beside builds that use old shards again: no snapshot names what is gone."""

import os
import time

import pytest

from headrace import shards
from headrace.gc import collect, find_garbage
from headrace.outputs import find_parts
from tests.builds import twenty_clips

DAY_SECONDS = 86_400


@pytest.fixture
def reverting(tmp_path):
    """A project whose last change, three days old, has just been taken back: the shard from before fits again."""
    project = twenty_clips(tmp_path)
    project.build()
    project.put("clip04.wav", "other")
    project.build()
    for path in (project.folder / "output").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 3 * DAY_SECONDS,) * 2)
    project.put("clip04.wav", "clip04.wav", num_frames=304)
    return project


def garbage(project):
    return find_garbage(find_parts(project.output), keep=1, now_seconds=time.time())


def missing(project, build):
    names = [shard.name for made in build.partitions.values() for shard in made.manifest.manifest.shards]
    return [name for name in names if not project.shards.exists(name)]


def test_what_gc_removes_while_a_build_uses_it_again_is_made_again(reverting, monkeypatch):
    commit = shards.commit_manifest

    def after_gc(storage, manifest, previous):
        for found in garbage(reverting):
            collect(found)
        return commit(storage, manifest, previous)

    monkeypatch.setattr(shards, "commit_manifest", after_gc)
    build = reverting.build()
    assert build.written
    assert missing(reverting, build) == []


def test_gc_spares_what_a_build_has_come_to_use_again_since_it_looked(reverting):
    found = garbage(reverting)
    assert sum(part.num_shards for part in found) == 1
    build = reverting.build()
    assert build.written == []
    for part in found:
        collect(part)
    assert missing(reverting, build) == []
