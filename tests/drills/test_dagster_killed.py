"""A Dagster whose processes are all killed at random moments of a rebuild: the change arrives, and no run hangs."""

import signal
import time

import pytest

from headrace.errors import NotFoundError
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import open_storage
from tests.support.drills.subjects import check_readers, check_whole, tones
from tests.support.live import DagsterDev

NEVER = {"cron": "0 0 1 1 *", "enabled": False}
SECONDS = 240


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small project whose schedules are off."""
    schedules = dict.fromkeys(("refresh", "verify", "gc", "history"), NEVER)
    shards = {"samples_per_shard": 3, "partitions": {"train": 2, "test": 1}}
    return tones(tmp_path_factory.mktemp("killed"), 8, shards=shards, schedules=schedules)


@pytest.fixture(scope="module")
def server(project):
    """A running server that has built the project once."""
    server = DagsterDev(project.folder, project.datasets)
    server.start()
    server.wait(lambda: committed(project) is not None, SECONDS, "the first build")
    yield server
    server.stop()


def committed(project) -> int | None:
    """Number of the newest audio snapshot that has its latents, else None."""
    try:
        audio, latents = (read_snapshot(open_storage(f"{project.output}/{name}")) for name in ("audio", "latents/mel"))
    except NotFoundError:
        return None
    return audio.number if latents.snapshot.origin["audio_snapshot"] == audio.number else None


def test_a_dagster_whose_processes_are_killed(project, server, drill):
    made = iter(range(10**6))

    def one_round(chance):
        before = committed(project) or 0
        number = next(made)
        project.write_tone(f"tone{number % 8:03d}", hz=500 + number)
        kills = chance.choice([1, 1, 2])
        for _ in range(kills):
            time.sleep(chance.uniform(0.5, 12))
            server.stop(signal.SIGKILL)
            check_readers(open_storage(str(project.output)))
            server.start()
        server.wait(lambda: (committed(project) or 0) > before, SECONDS, "a snapshot with the change")
        server.wait(lambda: all(run.is_finished for run in server.runs()), SECONDS, "the end of all runs")
        check_whole(project)
        return ["killed"] * kills

    drill.repeat(one_round, small=1, full=8)
