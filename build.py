"""Bring a data set up to date now: `python build.py NAME`, where NAME is a file of the folder of data sets.

The same as `headrace build datasets/NAME.yaml`, recorded in the same Dagster instance as `make ui`.
"""

import argparse
import sys
from pathlib import Path

from headrace.cli.building import DESCRIPTION, add_options, exit_code, quieten


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _build(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", help="data set: the name of a YAML file in the folder of data sets")
    parser.add_argument(
        "--datasets",
        type=Path,
        metavar="DIR",
        help="folder of YAML files (default: $HEADRACE_DATASETS or datasets/)",
    )
    add_options(parser)
    return parser


def _build(options: argparse.Namespace) -> int:
    quieten(verbose=options.verbose)
    from headrace_dagster.build_command.entry import build_place  # noqa: PLC0415 - after the line above
    from headrace_dagster.build_command.repository import place_of_name  # noqa: PLC0415 - as above

    return build_place(place_of_name(options.name, options.datasets), options)


if __name__ == "__main__":
    sys.exit(main())
