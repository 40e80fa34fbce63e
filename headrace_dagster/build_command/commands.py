"""The commands `headrace build` and `headrace ui` (entry points of the group `headrace.commands`)."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from headrace.cli.building import DESCRIPTION, add_options, exit_code, quieten
from headrace_dagster.build_command.entry import build_place
from headrace_dagster.build_command.place import place_of_file

_PORT = 3000
_MOST = 65_535
_BUILD = f"""\
Bring the data set that FILE.yaml describes up to date now. Dagster's history is kept in the folder of DAGSTER_HOME, or
in .headrace/dagster beside FILE.yaml. Relative URIs in FILE.yaml are relative to --root, or to the nearest folder above
it with a workspace.yaml or a pyproject.toml that has [tool.dg], or else to its own folder.

{DESCRIPTION}"""
_UI = """\
Open Dagster's web interface on the loopback interface, with the assets of the data set that FILE.yaml describes, and
with the daemon, whose sensors and schedules keep it up to date. Ctrl-C ends it. Root and history are those of
`headrace build`.
"""


def build(arguments: Sequence[str]) -> int:
    """Run `headrace build`. Returns the exit code."""
    parser = _parser("build", _BUILD)
    add_options(parser)
    options = parser.parse_args(arguments)
    quieten(verbose=options.verbose)
    return exit_code(lambda: build_place(place_of_file(options.file, options.root), options))


def ui(arguments: Sequence[str]) -> int:
    """Run `headrace ui`, which replaces this process. Returns the exit code of an error."""
    parser = _parser("ui", _UI)
    parser.add_argument("--port", type=_port, default=_PORT, metavar="N", help=f"port (default {_PORT})")
    options = parser.parse_args(arguments)
    quieten(verbose=True)
    from headrace_dagster.build_command.serving import serve  # noqa: PLC0415 - Dagster, after the line above

    return exit_code(lambda: serve(place_of_file(options.file, options.root), options.port))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 to {_MOST}")
    return int(text)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        f"headrace {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="the file that describes the data set")
    parser.add_argument("--root", type=Path, metavar="DIR", help="folder to which relative URIs are relative")
    return parser
