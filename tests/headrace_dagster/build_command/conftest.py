"""A data set of six tones, not built and built, for tests of `build.py`."""

import contextlib

import pytest

from headrace_dagster.build_command.instance import open_instance
from tests.support.built import BuiltProject
from tests.support.instances import memory_instance
from tests.support.six_tones import run, six_tones
from tests.support.undrawn import nothing_drawn


@pytest.fixture
def project(tmp_path, undrawn):
    """A dataset that has not been built."""
    return six_tones(tmp_path)


@pytest.fixture(scope="module")
@nothing_drawn()
def once_built(tmp_path_factory):
    project, instance = six_tones(tmp_path_factory.mktemp("built")), memory_instance()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
        )
        assert run(project) == 0
    return BuiltProject(project, instance)


@pytest.fixture
def built(once_built, instances, undrawn):
    """Built data set of six tones."""
    instances[-1] = once_built.instance
    return once_built.put_back()


@pytest.fixture(autouse=True)
def instances(monkeypatch):
    """Record every build of a test in the last of these in-memory instances. A real one takes a second to create."""
    instances = [memory_instance()]
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instances[-1])
    )
    return instances


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Use a real instance in files instead."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("headrace_dagster.build_command.command.open_instance", open_instance)
    return tmp_path / "home"
