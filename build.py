"""Bring a data set up to date now: `python build.py NAME`.

Runs the assets that are not up to date in this process, and records them in the same Dagster instance as `make ui`.
Prints one line if nothing changed. Otherwise prints: files added, changed and removed; new rejects and their reasons;
and for each step its seconds, the partitions that were built and why, and how many of their shards were written, reused
and removed (`headrace gc` deletes the files of removed shards later).

Exit codes: 0 success; 1 a check or a step failed; 2 the command line or a YAML file is invalid; 130 stopped with Ctrl-C
(the next build continues).
"""

import argparse
import logging
import os
import sys
import warnings
from pathlib import Path

from rich.console import Console

from headrace.errors import ConfigError, HeadraceError

_USAGE_ERROR = 2
_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    options = _parser().parse_args(arguments)
    console = Console(markup=False, emoji=False)  # names are printed as they are: [b] and :x: have no meaning
    try:
        return _build(options, console)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return _USAGE_ERROR
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped with Ctrl-C: finished shards are kept, and the next build continues from here", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", help="data set: the name of a YAML file in the folder of data sets")
    parser.add_argument(
        "--datasets",
        type=Path,
        metavar="DIR",
        help="folder of YAML files (default: $HEADRACE_DATASETS or datasets/)",
    )
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="ASSETS",
        help="only these assets, if they are stale: names like audio_shards or crepe_latent_shards, separated by "
        "commas, or Dagster's selection syntax; recordings means catalog, whose run updates them; may be repeated",
    )
    parser.add_argument("--table", action="store_true", help="print what the data set holds even if nothing changed")
    parser.add_argument("--verbose", action="store_true", help="print Dagster's own log")
    return parser


def _build(options: argparse.Namespace, console: Console) -> int:
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    if not options.verbose:
        warnings.filterwarnings("ignore", module="dagster")
        logging.getLogger("sqlalchemy").addHandler(
            logging.NullHandler()
        )  # otherwise Ctrl-C while it closes prints a traceback
    from headrace_dagster.build_command.command import CommandLine, build_dataset  # noqa: PLC0415 - Dagster, after the lines above

    command = CommandLine(
        options.name, options.datasets, tuple(options.select), table=options.table, verbose=options.verbose
    )
    return build_dataset(command, console)


if __name__ == "__main__":
    sys.exit(main())
