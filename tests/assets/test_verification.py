"""The job that verifies: shards are read on the workers in tasks, and faults fail the run with the first of them."""

from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.stores.storage import LocalStorage
from headrace.verification.shard_check import Fault
from headrace.verification.verify import Verdict
from headrace_dagster.assets import verification
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.verification import _lost_parts, _Report, _result, checked_on_workers


class FakeWorkers:
    """Runs each task in the thread that asks."""

    at_a_time = 2

    def __init__(self):
        self.sizes = []

    def run(self, work, progress):
        results = work(num_threads=1, progress=progress)
        self.sizes.append(len(results))
        return results


def test_shards_are_read_in_tasks_of_64_in_order(monkeypatch):
    def checked(shards, depth):
        assert depth.num_threads == 1
        return [SimpleNamespace(shard=shard, num_samples=1) for shard in shards]

    monkeypatch.setattr(verification, "checked_on_threads", checked)
    workers = FakeWorkers()
    found = list(checked_on_workers(workers, list(range(150))))
    assert [one.shard for one in found] == list(range(150))
    assert sorted(workers.sizes) == [22, 64, 64]
    assert list(checked_on_workers(workers, [])) == []


def test_without_faults_the_numbers_are_shown():
    found = _result(Verdict(num_shards=2, num_samples=9, num_bytes=100), "all of it")
    shown = {name: value.value for name, value in found.metadata.items()}
    assert shown == {"shards": 2, "samples": 9, "shard_bytes": 100, "verified": "all of it"}


def test_faults_fail_the_run_and_twenty_are_listed():
    faults = [Fault(f"{number}.tar", "damaged") for number in range(25)]
    with pytest.raises(dg.Failure) as error:
        _result(Verdict(faults=faults, num_shards=30), "")
    message = str(error.value.description)
    assert message.startswith("25 faults in 30 shards; delete the damaged shards and build them again:\n0.tar: damaged")
    assert "19.tar" in message
    assert "20.tar" not in message


PARTS = {"latents/crepe": "crepe_sizes_index", "columns/moods": "moods_columns_index", "views/loud": "loud_view"}


@pytest.mark.parametrize("was_built", [True, False])
@pytest.mark.parametrize("folder", PARTS)
def test_a_folder_of_the_yaml_that_was_built_and_is_gone_is_a_fault(tmp_path, folder, was_built):
    for name in PARTS.keys() - {folder}:
        (tmp_path / name / "snapshots").mkdir(parents=True)
        (tmp_path / name / "snapshots/00000001.json").write_bytes(b"{}")
    config = SimpleNamespace(latents=[SimpleNamespace(name="crepe")], column_sets=["moods"], views={"loud": None})
    built = {dg.AssetKey(["birds", name]) for part, name in PARTS.items() if was_built or part != folder}
    instance = SimpleNamespace(get_latest_materialization_event=lambda key: key if key in built else None)
    dataset = SimpleNamespace(config=config, keys=DatasetKeys(("birds",)))
    found = list(_lost_parts(dataset, LocalStorage(tmp_path), instance))
    assert [fault.where for fault in found] == [str(tmp_path / folder)] * was_built
    assert all(f"materialize birds/{PARTS[folder]} again" in fault.what for fault in found)


def test_a_line_says_how_far_it_is_at_most_every_ten_seconds(monkeypatch):
    lines, now = [], [100.0]
    monkeypatch.setattr(verification.time, "monotonic", lambda: now[0])
    report = _Report(lines.append, total=4, said=100.0)
    for second, faults in ((105, ()), (110, (1,)), (115, ()), (121, ())):
        now[0] = second
        report.count(SimpleNamespace(faults=faults))
    assert lines == ["2 of 4 shards verified (50%), 1 faults", "4 of 4 shards verified (100%), 1 faults"]
