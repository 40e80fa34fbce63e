"""Tests of `headrace_dagster.resources.ray_workers`."""

import pytest

from headrace.errors import ConfigError
from headrace_dagster.resources.environment import workers_of
from headrace_dagster.resources.ray_workers import RayWorkersResource, num_processors, results_of, share_of, steps


def test_the_variable_selects_a_ray_cluster():
    assert workers_of({"HEADRACE_RAY_ADDRESS": "auto"}) == RayWorkersResource(address="auto", num_cpus=0)
    named = workers_of({"HEADRACE_RAY_ADDRESS": "ray://head:10001", "HEADRACE_RAY_CPUS": "4"})
    assert named == RayWorkersResource(address="ray://head:10001", num_cpus=4)


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


def test_a_failed_task_raises_the_error_of_its_work():
    def work(*, num_threads, progress):
        progress(1)
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        list(steps(work, 1))
