"""Runs whose process died are marked failed."""

# ruff: noqa: TID251

import multiprocessing
import os
import signal
import socket
import time

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.events import EngineEventData
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.sensors.activity import active_runs

pytestmark = pytest.mark.medium

TONES = ProjectDataset.named(DatasetConfig(name="tones", source={"uri": "a"}, output={"uri": "b"}))


@pytest.fixture
def instance(tmp_path):
    """An instance in files."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def test_a_run_whose_process_died_is_marked_failed_and_counts_as_not_running(instance):
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    process.start()
    started = _started_run(instance, process.pid)
    assert len(active_runs(instance, TONES)) == 1
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert active_runs(instance, TONES) == []
    assert instance.get_run_by_id(started).status == dg.DagsterRunStatus.FAILURE


def test_a_run_that_waits_its_turn_counts_as_running(instance):
    @dg.job
    def work(): ...

    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="definitions"), location_name="headrace")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), "work")
    code = JobPythonOrigin("work", RepositoryPythonOrigin("python", ModuleCodePointer("definitions", "work")))
    instance.create_run_for_job(work, status=dg.DagsterRunStatus.QUEUED, remote_job_origin=origin, job_code_origin=code)
    assert len(active_runs(instance, TONES)) == 1


def test_another_process_with_the_pid_of_a_dead_one_does_not_keep_a_run_alive(instance):
    _started_run(instance, os.getpid(), before_seconds=10_000_000.0)
    assert active_runs(instance, TONES) == []


def test_a_dead_run_of_something_else_in_the_project_is_left_to_dagster(instance):
    _started_run(instance, os.getpid(), before_seconds=10_000_000.0, tags={"headrace/dataset": "others"})
    assert len(active_runs(instance, TONES)) == 1


def test_a_build_on_another_machine_is_not_taken_for_dead(instance):
    here, there = (
        _started_run(instance, os.getpid(), before_seconds=10_000_000.0, tags={"headrace/host": host})
        for host in (socket.gethostname(), f"not-{socket.gethostname()}")
    )
    assert len(active_runs(instance, TONES)) == 1
    assert instance.get_run_by_id(here).status == dg.DagsterRunStatus.FAILURE
    assert instance.get_run_by_id(there).status == dg.DagsterRunStatus.STARTED


def _started_run(
    instance: dg.DagsterInstance, pid: int, before_seconds: float = 0.0, tags: dict[str, str] | None = None
) -> str:
    """A run of `tones` as a code server leaves it behind: started, with the process named in its log."""

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def work():
        nothing()

    tags = {"headrace/dataset": "tones", **(tags or {})}
    run = instance.create_run_for_job(work, status=dg.DagsterRunStatus.NOT_STARTED, tags=tags)
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ENGINE_EVENT.value,
        job_name=run.job_name,
        message=f"Started process for run (pid: {pid}).",
        event_specific_data=EngineEventData.in_process(pid),
    )
    instance.report_dagster_event(event, run.run_id, timestamp=time.time() - before_seconds)
    instance.report_dagster_event(
        dg.DagsterEvent(event_type_value=dg.DagsterEventType.PIPELINE_START.value, job_name=run.job_name), run.run_id
    )
    return run.run_id
