"""A build that has nothing to do finds that without Dagster, and only then."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
from typing import ClassVar

import dagster as dg
import pytest

from headrace.assemble.dataset_stores import DatasetStores
from headrace.catalog.stored import unchanged
from headrace.config.dataset import load_config
from headrace_dagster.build_command.entry import up_to_date
from headrace_dagster.build_command.instance import open_instance
from headrace_dagster.build_command.repository import place_of_name
from headrace_dagster.build_command.standing import things_digest
from tests.support.built import BuiltProject
from tests.support.instances import memory_instance
from tests.support.loud_encoder import Loud
from tests.support.six_tones import run, six_tones
from tests.support.undrawn import nothing_drawn

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
@nothing_drawn()
def stored(tmp_path_factory):
    project = six_tones(tmp_path_factory.mktemp("standing"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(project.folder / "home"))
        patch.setattr("headrace_dagster.build_command.command.open_instance", open_instance)
        assert run(project) == 0
    return BuiltProject(project, memory_instance())


@pytest.fixture
def settled(stored, undrawn, monkeypatch):
    """A built data set, with its history in files."""
    project = stored.put_back()
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder / "home"))
    monkeypatch.setattr("headrace_dagster.build_command.command.open_instance", open_instance)
    return project


@pytest.fixture
def no_dagster(monkeypatch):
    """Fail if Dagster is opened."""
    monkeypatch.setattr("headrace_dagster.build_command.command.open_instance", lambda _: pytest.fail("opened"))


def is_settled(project):
    return up_to_date(place_of_name("tones", project.datasets)) is not None


def shard(project):
    return min((project.output / "audio").rglob("*.tar"))


def recorded(project):
    """The database of Dagster's events."""
    return project.folder / "home/history/runs/index.db"


def wipe(project):
    with dg.DagsterInstance.from_config(str(project.folder / "home")) as instance:
        instance.wipe_assets([dg.AssetKey(["tones", "sizes_index"])])


def replaced(path, old, new):
    path.write_bytes(path.read_bytes().replace(old, new, 1))


CHANGES = {
    "a new file": lambda it: it.write_tone("new"),
    "a file less": lambda it: next(it.recordings.iterdir()).unlink(),
    "a file of other content": lambda it: replaced(min(it.recordings.iterdir()), b"\0", b"\1"),
    "other settings": lambda it: it.write_yaml(audio={"max_samples_per_shard": 2}),
    "another data set beside it": lambda it: shutil.copy(it.datasets / "tones.yaml", it.datasets / "twin.yaml"),
    "a shard less": lambda it: shard(it).unlink(),
    "a shorter shard": lambda it: os.truncate(shard(it), 1024),
    "an index less": lambda it: min((it.output / "audio").rglob("*.idx*")).unlink(),
    "other sizes": lambda it: replaced(it.output / "audio/sizes.json", b"1", b"2"),
    "no snapshot": lambda it: shutil.rmtree(it.output / "audio/snapshots"),
    "no catalog": lambda it: shutil.rmtree(it.output / "catalog"),
    "no report": lambda it: next(it.output.glob("*.html")).unlink(),
    "a wiped asset": wipe,
    "no history": lambda it: recorded(it).unlink(),
    "a history elsewhere": lambda it: (it.folder / "home/dagster.yaml").write_text("storage: {postgres: {}}"),
    "settings of Dagster that are a list": lambda it: (it.folder / "home/dagster.yaml").write_text("- 1\n"),
    "no settings of Dagster": lambda it: (it.folder / "home/dagster.yaml").unlink(),
    "a cut file of the standing": lambda it: os.truncate(next((it.folder / "home/up_to_date").iterdir()), 20),
    "a standing of another version": lambda it: next((it.folder / "home/up_to_date").iterdir()).write_text('{"a": 1}'),
    "a standing that is a list": lambda it: next((it.folder / "home/up_to_date").iterdir()).write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_dagster_decides_after_any_change(settled, change):
    assert is_settled(settled)
    change(settled)
    assert not is_settled(settled)


def test_other_code_asks_dagster(settled, monkeypatch):
    monkeypatch.setattr(unchanged, "code_digest", lambda: "other")
    assert not is_settled(settled)


class Level:
    """A feature of a user."""

    columns: ClassVar = {"level": "float"}
    fingerprint = "first"

    def __call__(self, audio, sample_rate_hz):
        return {"level": 1.0}


OWN_CODE = {
    Level: {"features": [{"name": "own", "kind": "custom", "feature": f"{__name__}:Level"}]},
    Loud: {"latents": [{"name": "own", "encoder": {"kind": "custom", "encoder": f"{Loud.__module__}:Loud"}}]},
}


@pytest.mark.parametrize(("code", "settings"), OWN_CODE.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_other_code_of_a_user_asks_dagster(settled, monkeypatch, code, settings):
    settled.write_yaml(**settings)
    place = place_of_name("tones", settled.datasets)
    arguments = place, load_config(place.yaml), DatasetStores(str(place.root))
    before = things_digest(*arguments)
    assert before
    assert things_digest(*arguments) == before
    monkeypatch.setattr(code, "fingerprint", "second")
    assert things_digest(*arguments) != before


def test_what_dagster_does_besides_assets_changes_nothing(settled):
    (settled.datasets / "notes.txt").write_text("not a data set")
    with contextlib.closing(sqlite3.connect(settled.folder / "home/history/runs.db")) as runs:
        runs.execute("CREATE TABLE beats (id)")  # heartbeats of the daemon
        runs.commit()
    assert is_settled(settled)


def test_it_says_what_a_build_by_dagster_says(settled, capsys, monkeypatch):
    said = []
    for _ in range(2):
        assert run(settled) == 0
        text = capsys.readouterr().out
        assert run(settled, "--json") == 0
        content = json.loads(capsys.readouterr().out)
        changes = content.pop("changes")
        said.append((re.sub(r"\([\d.]+ s\)", "", text), content, changes["catalog"], changes["steps"] == []))
        monkeypatch.setattr("headrace_dagster.build_command.entry.up_to_date", lambda _: None)
    fast, slow = said
    assert "tones: nothing changed: 6 recordings, audio: " in fast[0]
    assert fast[:-1] == slow[:-1]
    assert (fast[-1], slow[-1]) == (True, False)


def test_a_build_without_work_opens_nothing(settled, no_dagster):
    assert run(settled) == 0
    with pytest.raises(pytest.fail.Exception):
        run(settled, "--select", "catalog")


def test_a_build_that_did_something_is_followed_by_one_that_opens_nothing(settled, monkeypatch):
    settled.write_tone("new")
    assert run(settled) == 0
    monkeypatch.setattr("headrace_dagster.build_command.command.open_instance", lambda _: pytest.fail("opened"))
    assert run(settled) == 0


def test_a_record_that_another_process_changes_during_the_last_look_is_not_missed(settled, monkeypatch):
    settled.write_tone("new")
    monkeypatch.setattr("headrace_dagster.build_command.command.is_settled", lambda _: wipe(settled) or True)
    assert run(settled) == 0
    assert not is_settled(settled)


def test_records_that_are_not_in_the_home_leave_no_standing(settled, monkeypatch):
    """The home has a history, and the build is recorded elsewhere."""
    instance = memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    settled.write_tone("new")
    assert run(settled) == 0
    assert not is_settled(settled)
    assert instance.get_latest_materialization_event(dg.AssetKey(["tones", "sizes_index"])) is not None


def test_a_standing_that_cannot_be_stored_is_no_error(settled):
    settled.write_tone("new")
    shutil.rmtree(settled.folder / "home/up_to_date")
    (settled.folder / "home/up_to_date").touch()
    assert run(settled) == 0
    assert not is_settled(settled)


def test_a_selection_and_a_failure_leave_no_standing(settled):
    settled.write_tone("new")
    assert run(settled, "--select", "catalog") == 0
    assert not is_settled(settled)
    for path in settled.recordings.iterdir():
        path.unlink()
    assert run(settled) == 1
    assert not is_settled(settled)
