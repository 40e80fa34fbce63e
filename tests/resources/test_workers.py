"""Workers that make partitions: their selection by the environment, and the resources they request of a cluster."""

import pickle
import threading

import pytest

from headrace.verification.verify import find_target
from headrace_dagster.assets.verification import checked_on_workers
from headrace_dagster.resources.workers import WorkersResource
from tests.support.projects import Graph, Project
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.medium


def test_threads_read_more_files_at_a_time_than_they_build_samples():
    for num_threads, num_readers in ((1, 4), (8, 32), (64, 64)):
        readers = threading.Barrier(num_readers)
        found = WorkersResource(num_threads=num_threads).map(
            lambda _, readers=readers: readers.wait(60), range(num_readers)
        )
        assert sorted(found) == list(range(num_readers))


class _Elsewhere:
    """Executes pickled work, as another machine would."""

    count = at_a_time = 1

    def run(self, work, progress, *, on_gpu=False):
        return pickle.loads(pickle.dumps(work))(num_threads=1, progress=progress)

    def map(self, function, items):
        for item in items:
            function, sent = pickle.loads(pickle.dumps((function, item)))
            yield pickle.loads(pickle.dumps(function(sent)))


def test_shards_are_verified_on_the_workers_in_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace_dagster.assets.verification._SHARDS_PER_TASK", 2)
    write_dataset(tmp_path, {"train": clips(5)}, per_shard=1)
    target, tasks = find_target(str(tmp_path)), []

    class Counting(_Elsewhere):
        at_a_time = 2

        def run(self, work, progress, *, on_gpu=False):
            tasks.append(work)
            return super().run(work, progress)

    found = list(checked_on_workers(Counting(), target.shards))
    assert [checked.shard.name for checked in found] == [shard.name for shard in target.shards]
    assert all(not checked.faults for checked in found)
    assert len(tasks) == 3
    assert list(checked_on_workers(Counting(), ())) == []


def test_the_work_of_scans_and_audio_partitions_can_be_pickled(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml()
    graph = Graph(project, resources={"headrace_workers": _Elsewhere()})
    graph.build()
    assert sum(project.sizes().values()) == 3
