"""Builds one data set as the command line asks; Dagster is imported when there is something to do."""

import argparse
import sys
import time

from headrace.cli.as_json import print_json
from headrace.config.folder import use_project
from headrace_dagster.build_command.place import Place
from headrace_dagster.build_command.standing import up_to_date, with_seconds


def build_place(place: Place, options: argparse.Namespace) -> int:
    """Bring a data set up to date with the options of `headrace.cli.building`. Returns the exit code.

    Raises:
        ConfigError: the YAML file is invalid, or the selection names no asset of the data set.
    """
    use_project(place.root)
    if options.plan:
        from headrace_dagster.build_command.planning import plan_place  # noqa: PLC0415 - polars

        return plan_place(place, options)
    if not (options.select or options.table or options.verbose) and _is_up_to_date(place, as_json=options.json):
        return 0
    from headrace_dagster.build_command.command import CommandLine, build_dataset  # noqa: PLC0415 - Dagster

    select = tuple(options.select)
    return build_dataset(CommandLine(place, select, table=options.table, json=options.json, verbose=options.verbose))


def _is_up_to_date(place: Place, *, as_json: bool) -> bool:
    """Whether there is nothing to do; this is said then."""
    began = time.perf_counter()
    standing = up_to_date(place)
    if standing is None:
        return False
    seconds = time.perf_counter() - began
    for line in (with_seconds(standing.said, seconds), *standing.notes):
        print(line, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print_json(standing.content | {"changes": standing.content["changes"] | {"seconds": seconds}})
    return True
