"""Commands of installed packages."""

from importlib.metadata import EntryPoint

import pytest

from headrace import cli
from headrace.cli import extensions

GREETED = []


def greet(arguments):
    GREETED.append(list(arguments))
    return 7


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    points = [
        EntryPoint("greet", f"{__name__}:greet", extensions.GROUP),
        EntryPoint("inspect", f"{__name__}:greet", extensions.GROUP),
        EntryPoint("build", "absent_package.commands:build", extensions.GROUP),
        EntryPoint("own", "absent_package.commands:own", extensions.GROUP),
    ]
    monkeypatch.setattr(extensions, "entry_points", lambda group: points if group == extensions.GROUP else [])
    monkeypatch.setattr(EntryPoint, "dist", None, raising=False)


def test_a_command_of_a_package_gets_its_arguments_and_gives_the_exit_code(monkeypatch):
    monkeypatch.setattr(EntryPoint, "load", lambda _: greet)
    assert cli.main(["greet", "--json", "x"]) == 7
    assert GREETED.pop() == ["--json", "x"]


def test_a_package_cannot_replace_a_command(tmp_path, capsys):
    assert cli.main(["inspect", str(tmp_path / "gone")]) == 1
    assert GREETED == []
    assert "gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [("build", "pip install 'headrace[dagster]'"), ("own", "install what absent_package.commands:own")],
)
def test_a_missing_package_is_named_with_the_way_out(name, said, capsys):
    assert cli.main([name, "x.yaml"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"headrace {name}: the package absent_package is not installed")
    assert said in shown


def test_help_lists_the_commands_without_importing_them(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert "bring a data set up to date" in shown
    assert "a command of another package" in shown
    with pytest.raises(SystemExit) as ended:
        cli.main(["nonsense"])
    assert ended.value.code == 2
    assert "greet" in capsys.readouterr().err
