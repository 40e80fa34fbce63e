"""Exit codes of a build."""

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
