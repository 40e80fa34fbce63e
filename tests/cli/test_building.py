"""Exit codes of a build."""

import gc

import pytest

from headrace.cli.building import exit_code
from headrace.errors import BuildError, ConfigError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("a key"), 2, "a key"),
        (BuildError("a step"), 1, "a step"),
        (KeyboardInterrupt(), 130, "stopped with Ctrl-C: finished shards are kept"),
    ],
)
def test_each_end_of_a_build_has_its_exit_code(error, code, said, capsys):
    def build():
        raise error

    assert exit_code(build) == code
    assert said in capsys.readouterr().err
    assert exit_code(lambda: 1) == 1


@pytest.mark.parametrize(("before", "within"), [(700, 20_000), (50_000, 50_000), (0, 0)])
def test_garbage_is_looked_for_less_often_while_a_build_runs(before, within, monkeypatch):
    monkeypatch.setattr(gc, "get_threshold", lambda: (before, 10, 10))
    seen = []
    monkeypatch.setattr(gc, "set_threshold", lambda *given: seen.append(given))
    exit_code(lambda: seen.append("build") or 0)
    assert seen == [(within, 10, 10), "build", (before, 10, 10)]
