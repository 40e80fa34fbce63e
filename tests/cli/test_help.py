"""Help and version of the `headrace` command."""

import importlib.metadata
import subprocess
import sys

import pytest

from headrace import cli
from headrace.cli.descriptions import DESCRIPTIONS


def test_every_command_has_help(capsys):
    for command in ([], *([name] for name in DESCRIPTIONS)):
        with pytest.raises(SystemExit) as ended:
            cli.main([*command, "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert "exit codes: 0 done, no faults" in text
        assert len(text) > 500


def test_the_command_says_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"headrace {importlib.metadata.version('headrace')}\n"


def test_help_starts_at_once():
    heavy = "[name for name in ('torch', 'rich', 'numpy') if name in sys.modules]"
    code = f"import sys; from headrace.cli import parser; parser(); print({heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
