"""Options, settings and exit codes of `headrace build` and `build.py`, before Dagster is imported."""

import argparse
import contextlib
import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator

from headrace.errors import ConfigError, HeadraceError

DESCRIPTION = """\
Runs the assets that are not up to date in this process, and records them in a Dagster instance.
Prints one line if nothing changed. Otherwise prints: files added, changed and removed; new rejects and their reasons;
and for each step its seconds, the partitions that were built and why, and how many of their shards were written, reused
and removed (`headrace gc` deletes the files of removed shards later).

Exit codes: 0 success; 1 a check or a step failed; 2 the command line or a YAML file is invalid; 130 stopped with Ctrl-C
(the next build continues).
"""
_USAGE_ERROR = 2
_INTERRUPTED = 130
_OBJECTS_PER_COLLECTION = 20_000  # instead of 700


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a build."""
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="ASSETS",
        help="only these assets, if they are stale: names like audio_shards or crepe_latent_shards, separated by "
        "commas, or Dagster's selection syntax; recordings means catalog, whose run updates them; may be repeated",
    )
    parser.add_argument("--table", action="store_true", help="print what the data set holds even if nothing changed")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="only print what would be built: scan the source, and list partitions, hours and bytes; write nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; all else goes to standard error")
    parser.add_argument("--verbose", action="store_true", help="print Dagster's own log")


def quieten(*, verbose: bool) -> None:
    """Keep Dagster's warnings off the terminal, and its telemetry off; called before Dagster is imported."""
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    if not verbose:
        warnings.filterwarnings("ignore", module="dagster")
        logging.getLogger("sqlalchemy").addHandler(
            logging.NullHandler()
        )  # otherwise Ctrl-C while it closes prints a traceback


def exit_code(build: Callable[[], int]) -> int:
    """The exit code of a build; expected errors are printed without a traceback."""
    try:
        with _rare_collections():
            return build()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return _USAGE_ERROR
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped with Ctrl-C: finished shards are kept, and the next build continues from here", file=sys.stderr)
        return _INTERRUPTED


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """A block in which Python looks for garbage less often: half a million objects of imported modules stay anyway.

    It saves a second of a small build's ten.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(first and max(first, _OBJECTS_PER_COLLECTION), *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
