"""Workers that make partitions: their selection by the environment, and the resources they request of a cluster."""

import pickle
import threading

import pytest

from headrace.errors import ConfigError
from headrace.verification.verify import find_target
from headrace_dagster.assets.verification import checked_on_workers
from headrace_dagster.resources.environment import workers_of
from headrace_dagster.resources.ray_workers import RayWorkersResource, num_processors, results_of, share_of, steps
from headrace_dagster.resources.workers import WorkersResource
from tests.support.projects import Graph, Project
from tests.support.streaming.corpus import clips, write_dataset


def test_without_the_variable_workers_are_threads_of_this_machine():
    assert workers_of({}) == workers_of({"HEADRACE_RAY_ADDRESS": ""}) == WorkersResource()


def test_the_variable_selects_a_ray_cluster():
    assert workers_of({"HEADRACE_RAY_ADDRESS": "auto"}) == RayWorkersResource(address="auto", num_cpus=0)
    named = workers_of({"HEADRACE_RAY_ADDRESS": "ray://head:10001", "HEADRACE_RAY_CPUS": "4"})
    assert named == RayWorkersResource(address="ray://head:10001", num_cpus=4)


def test_the_error_about_an_invalid_number_of_processors_names_the_variable():
    with pytest.raises(ConfigError, match="HEADRACE_RAY_CPUS=many: expected a number"):
        workers_of({"HEADRACE_RAY_ADDRESS": "auto", "HEADRACE_RAY_CPUS": "many"})


def _node(cpus, gpus=0, *, alive=True):
    return {"Alive": alive, "Resources": {"CPU": float(cpus), "memory": 1e9} | ({"GPU": float(gpus)} if gpus else {})}


@pytest.mark.parametrize(
    ("nodes", "num_cpus", "on_gpu", "share"),
    [
        ([_node(8), _node(64)], 0, False, (64, 0)),
        ([_node(8), _node(64)], 16, False, (16, 0)),
        ([_node(8), _node(4)], 16, False, (8, 0)),
        ([_node(64), _node(8, 4)], 0, True, (8, 1)),
        ([_node(64), _node(8, 4)], 0, False, (64, 0)),
        ([_node(64)], 0, True, (64, 0)),
        ([_node(8), _node(64, alive=False)], 0, False, (8, 0)),
        ([], 4, True, (1, 0)),
    ],
)
def test_a_task_requests_no_more_than_some_node_has(nodes, num_cpus, on_gpu, share):
    assert share_of(nodes, num_cpus, on_gpu=on_gpu) == share


def test_a_task_yields_its_progress_and_then_its_result():
    def work(*, num_threads, progress):
        for count in (1, 2, 3):
            progress(count)
        return num_threads

    *counts, done = steps(work, 7)
    assert sum(counts) == 6
    assert done.result == 7


def test_a_task_reads_some_files_and_gives_their_results():
    assert sorted(results_of(str, range(20))) == sorted(map(str, range(20)))


@pytest.mark.parametrize(
    ("nodes", "count"), [([_node(8), _node(64)], 72), ([_node(8), _node(64, alive=False)], 8), ([], 1)]
)
def test_files_are_read_on_all_processors_of_the_cluster(nodes, count):
    assert num_processors(nodes) == count


def test_threads_read_more_files_at_a_time_than_they_build_samples():
    for num_threads, num_readers in ((1, 4), (8, 32), (64, 64)):
        readers = threading.Barrier(num_readers)
        found = WorkersResource(num_threads=num_threads).map(
            lambda _, readers=readers: readers.wait(60), range(num_readers)
        )
        assert sorted(found) == list(range(num_readers))


def test_a_failed_task_raises_the_error_of_its_work():
    def work(*, num_threads, progress):
        progress(1)
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        list(steps(work, 1))


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
