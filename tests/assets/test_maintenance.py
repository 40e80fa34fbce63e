"""The jobs that remove unused files and old runs."""

from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets import maintenance
from headrace_dagster.assets.maintenance import gc_job, history_job
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from tests.support.instances import memory_instance


def executed(job, instance, **resources):
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    result = job.execute_in_process(resources=resources, run_config=quiet, instance=instance)
    (output,) = (event for event in result.all_events if event.is_successful_output)
    return {name: value.value for name, value in output.step_output_data.metadata.items()}


def dataset(folder):
    output = {"uri": str(folder / "output")}
    return ProjectDataset.named(DatasetConfig(name="birds", source={"uri": str(folder)}, output=output))


def test_the_runs_that_may_be_forgotten_are_removed(tmp_path, monkeypatch):
    removed = []
    monkeypatch.setattr(maintenance, "forgettable_runs", lambda instance, dataset, now_seconds: ["a", "b"])
    monkeypatch.setattr(maintenance, "remove_run", lambda instance, run_id: removed.append(run_id))
    job = history_job(dataset(tmp_path))
    assert job.name == "birds_history"
    assert executed(job, memory_instance()) == {"runs_removed": 2}
    assert removed == ["a", "b"]


def test_what_is_garbage_is_removed_and_counted(tmp_path, monkeypatch):
    of = dataset(tmp_path)
    folder = tmp_path / "output/audio"
    folder.mkdir(parents=True)
    (folder / "train_0000_000000-0123456789ab.tar").write_bytes(b"x" * 100)
    kept = []

    def find(output, keep, now_seconds):
        kept.append(keep)
        return {"audio": list(output.at("audio").list())}

    monkeypatch.setattr(maintenance, "find_garbage", find)
    monkeypatch.setattr(maintenance, "collect", lambda output, found: found)
    job = gc_job(of)
    assert job.name == "birds_gc"
    found = executed(job, memory_instance(), headrace_storage=StorageResource())
    assert found == {"files_removed": 1, "removed_bytes": 100}
    assert kept == [of.config.schedules.gc.keep]
