"""The database files of runs that are copied are the ones that Dagster creates."""

import sqlite3

import dagster as dg
import pytest

from headrace_dagster.resources.dagster_internals.instances import quiet_instance
from headrace_dagster.resources.dagster_internals.run_databases import copy_run_databases

pytestmark = pytest.mark.medium


@dg.op
def work() -> None:
    """Do nothing."""


@dg.job
def nothing() -> None:
    """A job whose run has events."""
    work()


def schema(path):
    """Tables, indexes, version of the migrations and journal of a database."""
    with sqlite3.connect(path) as database:
        tables = database.execute("select type, name, sql from sqlite_master order by name").fetchall()
        version = database.execute("select version_num from alembic_version").fetchall()
        (journal,) = database.execute("pragma journal_mode").fetchone()
    database.close()
    return tables, version, journal


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The database of a run by Dagster, and of two runs whose files are copies; the instance of the latter."""
    found = []
    for is_copied in (False, True):
        home = tmp_path_factory.mktemp("home")
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        with quiet_instance(home) as instance:
            if is_copied:
                copy_run_databases(instance)
            ids = [nothing.execute_in_process(instance=instance).run_id for _ in range(1 + is_copied)]
            found += [(home / "history" / "runs" / f"{run}.db", len(instance.all_logs(run))) for run in ids]
    return found


def test_a_copied_database_has_the_tables_the_version_and_the_journal_of_dagsters_own(runs):
    own, *copies = (schema(path) for path, _ in runs)
    assert all(copy == own for copy in copies)


def test_runs_have_all_their_events(runs):
    assert len({number for _, number in runs}) == 1
    assert runs[0][1] > 5


def test_nothing_is_left_beside_the_databases(runs):
    folder = runs[-1][0].parent
    assert [path.name for path in folder.iterdir() if path.name[0] == "."] == []


def test_other_storages_stay_as_they_are():
    with dg.DagsterInstance.ephemeral() as instance:
        copy_run_databases(instance)
        assert nothing.execute_in_process(instance=instance).success
