"""Signs of a build that is running, or was killed."""

import os
import time

import pytest

from headrace.format.shards.condemned import condemned
from headrace.format.shards.journal import note_shard
from headrace.stores.storage import LocalStorage
from headrace.upkeep import activity
from headrace.upkeep.activity import signs_of_builds
from tests.support.streaming.corpus import clips, write_dataset

NAME = "train_0000_000009-1a2b3c4d5e6f.tar"


@pytest.fixture
def output(tmp_path, monkeypatch):
    monkeypatch.setattr(activity, "entry_points", lambda group: [])
    write_dataset(tmp_path, {"train": clips(3)})
    return LocalStorage(tmp_path)


def test_an_output_at_rest_shows_no_sign(output):
    assert signs_of_builds(output) == []


def test_shards_of_the_journal_that_no_manifest_names_are_a_sign(output):
    audio = output.at("audio")
    note_shard(audio, NAME)
    assert signs_of_builds(output) == []  # noted before it is written
    audio.write(NAME, b"x")
    (sign,) = signs_of_builds(output)
    assert sign == f"{audio.uri}: the journal of a build has 1 shards that no manifest names ({NAME})"
    audio.delete(NAME)
    for entry in list(audio.list()):
        if entry.path.endswith(".tar"):
            note_shard(audio, entry.path)
    assert signs_of_builds(output) == []


def test_shards_that_a_killed_gc_left_are_no_sign(output):
    audio = output.at("audio")
    note_shard(audio, NAME)
    audio.write(NAME, b"x")
    with pytest.raises(KeyboardInterrupt), condemned(audio, [NAME]):
        raise KeyboardInterrupt
    assert signs_of_builds(output) == []
    later = time.time() + 9
    os.utime(audio.local_path(NAME), (later, later))  # a build has written it again
    assert len(signs_of_builds(output)) == 1


def test_runs_in_progress_are_asked_for(output, monkeypatch):
    class Point:
        def load(self):
            return lambda: ["a run"]

    monkeypatch.setattr(activity, "entry_points", lambda group: [Point()] if group == activity.RUNS_GROUP else [])
    assert signs_of_builds(output) == ["a run"]
