"""Databases that are kept open hold what Dagster's own connections write, and are closed with the instance."""

import sqlite3
from contextlib import closing

import dagster as dg
import pytest
import sqlalchemy as sa

from headrace_dagster.resources.dagster_internals.instances import quiet_instance
from headrace_dagster.resources.dagster_internals.open_databases import keep_databases_open

pytestmark = pytest.mark.medium

_FEW_CONNECTIONS = 9  # to create the database of the run; without keeping databases open there are 50


@dg.asset
def made() -> None:
    """Nothing."""


def opened(home):
    """The instance of a folder, with databases that stay open."""
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    instance = quiet_instance(home)
    keep_databases_open(instance)
    return instance


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def connections(monkeypatch):
    """Paths of the databases that are opened, in order."""
    paths, own = [], sqlite3.connect

    def connect(path, *args, **kwargs):
        paths.append(path)
        return own(path, *args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect)
    return paths


def run(instance):
    """Id of a finished run."""
    return dg.materialize([made], instance=instance).run_id


def test_another_instance_reads_each_run_while_the_databases_are_open(home):
    with opened(home) as instance:
        ids = [run(instance) for _ in range(3)]
        with quiet_instance(home) as other:
            assert [other.get_run_by_id(one).is_success for one in ids] == [True] * 3
            assert {len(other.all_logs(one)) for one in ids} == {len(instance.all_logs(ids[0]))}
            assert len(other.fetch_materializations(made.key, limit=9).records) == len(ids)
            ids.append(run(other))
        assert {found.run_id for found in instance.get_runs()} == set(ids)


def test_each_database_has_the_events_of_its_own_run(home):
    with opened(home) as instance:
        first, second = run(instance), run(instance)
        assert [{event.run_id for event in instance.all_logs(one)} for one in (first, second)] == [{first}, {second}]
    for one in (first, second):
        with closing(sqlite3.connect(home / f"history/runs/{one}.db")) as database:
            assert database.execute("select distinct run_id from event_logs").fetchall() == [(one,)]


def test_a_run_opens_few_databases(home, connections):
    with opened(home) as instance:
        run(instance)
        connections.clear()
        run(instance)
        assert 1 <= len(connections) <= _FEW_CONNECTIONS, connections


def test_an_instance_that_is_closed_leaves_no_open_database(home):
    with opened(home) as instance:
        run(instance)
        assert list(home.rglob("*.db-wal")) != []
    assert list(home.rglob("*.db-wal")) == []


def write_and_fail(connect):
    """Write a row, and fail before the end of the transaction."""
    with connect() as connection:
        connection.execute(sa.text("insert into half values (1)"))
        connection.execute(sa.text("insert into missing values (1)"))


@pytest.mark.parametrize("which", ["events", "index", "runs"])
def test_what_fails_is_not_written(home, which):
    with opened(home) as instance:
        one = run(instance)
        connect = {
            "events": lambda: instance.event_log_storage.run_connection(one),
            "index": instance.event_log_storage.index_connection,
            "runs": instance.run_storage.connect,
        }[which]
        with connect() as connection:
            connection.execute(sa.text("create table half (x)"))
        with pytest.raises(sa.exc.OperationalError, match="no such table"):
            write_and_fail(connect)
        with connect() as connection:
            assert connection.execute(sa.text("select count(*) from half")).scalar() == 0


def test_an_instance_without_files_works_as_before():
    with dg.DagsterInstance.ephemeral() as instance:
        keep_databases_open(instance)
        assert instance.get_run_by_id(run(instance)).is_success
