"""Who makes partitions: what the environment names, and what is asked of a cluster's nodes."""

import pickle

import pytest

from headrace.errors import ConfigError
from resources.environment import workers_of
from resources.ray_workers import RayWorkersResource, share_of, steps
from resources.workers import WorkersResource
from tests.projects import Graph, Project


def test_without_a_variable_they_are_threads_of_this_machine():
    assert workers_of({}) == workers_of({"HEADRACE_RAY_ADDRESS": ""}) == WorkersResource()


def test_a_variable_names_a_ray_cluster():
    assert workers_of({"HEADRACE_RAY_ADDRESS": "auto"}) == RayWorkersResource(address="auto", num_cpus=0)
    named = workers_of({"HEADRACE_RAY_ADDRESS": "ray://head:10001", "HEADRACE_RAY_CPUS": "4"})
    assert named == RayWorkersResource(address="ray://head:10001", num_cpus=4)


def test_a_number_of_processors_that_is_none_is_refused_by_the_name_of_its_variable():
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
def test_a_task_asks_for_no_more_than_some_node_has(nodes, num_cpus, on_gpu, share):
    assert share_of(nodes, num_cpus, on_gpu=on_gpu) == share


def test_a_task_tells_how_far_it_is_and_then_its_result():
    def work(*, num_threads, progress):
        for count in (1, 2, 3):
            progress(count)
        return num_threads

    *counts, done = steps(work, 7)
    assert sum(counts) == 6
    assert done.result == 7


def test_a_task_that_fails_raises_what_its_work_does():
    def work(*, num_threads, progress):
        progress(1)
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        list(steps(work, 1))


class _Elsewhere:
    """Does work on what arrives after pickling, as another machine would."""

    count = 1

    def run(self, work, progress, *, on_gpu=False):
        return pickle.loads(pickle.dumps(work))(num_threads=1, progress=progress)


def test_the_work_of_an_audio_partition_travels(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml()
    graph = Graph(project, resources={"workers": _Elsewhere()})
    graph.build()
    assert sum(project.sizes().values()) == 3
