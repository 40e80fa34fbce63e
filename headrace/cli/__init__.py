"""The command `headrace`, which looks at data sets and runs, and verifies, exports and cleans data, without Dagster.

This module parses arguments and sets exit codes; expected errors are printed without a traceback. `commands` calls the
library, `tables` prints the results, and `extensions` runs the commands of installed packages.
"""

import argparse
import errno
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from headrace.audio_names import check_audio_field
from headrace.cli import extensions
from headrace.cli.descriptions import DESCRIPTIONS, EPILOG
from headrace.cli.printable import printable
from headrace.config.shares import share_of
from headrace.errors import HeadraceError
from headrace.format.tars.member_names import KeyAt
from headrace.machine import num_cores
from headrace.signed_urls import check_no_password

_UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT}
"""Numbers of the errors of standard output that are no faults of the program."""


class _ShowVersion(argparse.Action):
    """Prints the version of the installed package, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"headrace {importlib.metadata.version('headrace')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    name = given[0] if given else ""
    try:
        return _flushed(_run(name, given))
    except HeadraceError as error:
        print(f"headrace {name}: {printable(error)}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # otherwise its reader has ended: `headrace inspect … | head`
            what = "standard output or a temporary file cannot be written"
            print(f"headrace {name}: {what}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"headrace {name}: interrupted", file=sys.stderr)
        return 130


def _flushed(code: int) -> int:
    """The exit code, after all output is written: at the end of Python, nobody handles its errors."""
    if sys.stdout is not None:  # None if it is closed: `>&-`
        sys.stdout.flush()
    return code


def _run(name: str, given: Sequence[str]) -> int:
    for argument in given:
        check_no_password(argument.partition("=")[2] if argument.startswith("--") else argument)
    if name not in DESCRIPTIONS and (point := extensions.commands().get(name)) is not None:
        return extensions.run(point, given[1:])
    options = parser().parse_args(given)
    from headrace.cli import commands  # noqa: PLC0415 - so that --help starts at once

    return commands.COMMANDS[options.command](options)


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    top = argparse.ArgumentParser(
        "headrace",
        description="Look at audio data sets in WebDataset shards, check them, and hand them on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    inspect = _command(commands, "inspect", "show what is in a data set")
    _path(inspect)
    _config(inspect)
    _json(inspect)

    verify = _command(commands, "verify", "compare shards with their digests and indexes")
    _path(verify)
    _json(verify)
    _jobs(verify)
    _key_at(verify)
    verify.add_argument(
        "--sample", type=_count(0), default=1, metavar="K", help="samples of each shard to decode (default 1)"
    )

    part = verify.add_mutually_exclusive_group()
    part.add_argument(
        "--fraction",
        type=_share,
        metavar="F",
        help="verify the next part of the shards of an output, such as 1/7, after the part before it",
    )
    part.add_argument(
        "--resume", action="store_true", help="verify what an interrupted run with --resume left, or else everything"
    )

    part.add_argument(
        "--encode-again",
        type=_share,
        metavar="F",
        help="encode this share of the latents again, such as 0.005, and compare; read no shard otherwise",
    )
    verify.add_argument("--config", metavar="FILE.yaml", help="with --encode-again: the YAML file of the data set")

    _tars(commands)
    _export(_command(commands, "export", "export a snapshot for other tools: plain tars, Parquet, NeMo, Lhotse, …"))

    columns = _command(commands, "columns", "export a set of columns as Parquet")
    columns.add_argument("path", metavar="OUTPUT", help="a data set's output: the folder with columns/ in it")
    columns.add_argument(
        "set", metavar="SET", nargs="?", default="metadata", help="name of the set (default: metadata)"
    )
    columns.add_argument("--parquet", metavar="FILE", required=True, help="the file to write")
    _json(columns)

    find = _command(commands, "find", "list the files that hold a sample")
    find.add_argument("key", metavar="KEY", help="a key, the path of a recording, or a condition on columns; quote it")
    find.add_argument("path", metavar="OUTPUT", help="a data set's output: the folder with audio/ in it")
    _json(find)

    gc = _command(commands, "gc", "remove old snapshots and the shards that only they name")
    gc.add_argument("path", metavar="OUTPUT", help="a data set's output: the folder with audio/ in it")
    gc.add_argument("--keep", type=_count(1), default=10, metavar="N", help="snapshots to keep (default 10)")
    gc.add_argument("--dry-run", action="store_true", help="list the files that would be removed, and remove none")
    gc.add_argument("--now", action="store_true", help="remove young files as well, if no build is running")
    gc.add_argument(
        "--left-behind",
        action="store_true",
        help="also remove sets of columns and latents, and views, that --config does not name any more",
    )
    _config(gc)
    gc.add_argument("--no-build-is-running", action="store_true", help="with --now: you know that no build is running")
    _json(gc)

    simulate = _command(commands, "simulate", "what a training job needs on each host")
    _path(simulate)
    _json(simulate)
    _job(simulate)
    _questions(commands)
    for name, point in extensions.commands().items():
        if name not in DESCRIPTIONS:
            commands.add_parser(name, help=extensions.summary(point), add_help=False)
    return top


def _tars(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands for tars of others."""
    index = _command(commands, "index", "write sizes.json and .idx for any WebDataset tars")
    index.add_argument("path", metavar="GLOB", help="folder, shell glob or brace pattern; quote it")
    _json(index)
    index.add_argument(
        "--jobs",
        type=_count(1),
        metavar="N",
        help=f"tars read at a time (default: {num_cores()}; of tars in a store with --into or --columns, 64)",
    )
    _key_at(index)
    index.add_argument(
        "--audio-fields",
        type=_audio_fields,
        default=(),
        metavar="NAMES",
        help="names of the audio fields, separated by commas, of samples with several audio files: mix,vocals for "
        "x.mix.flac and x.vocals.flac; loaders then give each as a field of its name",
    )
    index.add_argument("--columns", action="store_true", help="make columns of the JSON, text and class members, too")
    index.add_argument("--into", metavar="DIR", help="folder or URL that gets all files (default: beside the tars)")

    view = _command(commands, "view", "choose samples of tars that have columns")
    view.add_argument("path", metavar="DIR", help="folder with the columns: of the tars, or that of --into")
    view.add_argument("--name", required=True, metavar="N", help="name of the view")
    view.add_argument("--where", metavar="SQL", help="condition on columns (default: every sample)")
    view.add_argument("--times", metavar="SQL", help="how often each of these samples comes (default: once)")
    _json(view)


def _questions(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that ask a run."""
    seen = _command(commands, "seen", "when a run was given a sample")
    _state(seen)
    seen.add_argument("--key", required=True, metavar="K", help="key of the sample")

    batch = _command(commands, "batch", "the samples of one global batch of a run")
    _state(batch)
    batch.add_argument("--step", type=_count(0), required=True, metavar="N", help="number of the batch in the epoch")

    bill = _command(commands, "bill", "samples and hours that a run was given")
    _state(bill)
    bill.add_argument(
        "--by",
        metavar="COLUMN",
        help="stream, split, a column of the set metadata, or SET.COLUMN (default: stream and split)",
    )


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=DESCRIPTIONS[name],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _path(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", metavar="PATH", help="an output, a shard folder, or any WebDataset")


def _state(command: argparse.ArgumentParser) -> None:
    """The state of a run, and where its data are."""
    command.add_argument("path", metavar="STATE", help="file with the JSON of state_dict()")
    command.add_argument(
        "--remote",
        action="append",
        default=[],
        metavar="PATH",
        help="the data set that the run read, if it has moved; NAME=PATH for the stream NAME of several (may be given "
        "again)",
    )
    _json(command)


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config", metavar="FILE.yaml", help="the YAML file of the data set: names what it left behind in the output"
    )


def _jobs(command: argparse.ArgumentParser) -> None:
    cores = num_cores()
    command.add_argument(
        "--jobs", type=_count(1), default=cores, metavar="N", help=f"shards read at a time (default: {cores})"
    )


def _key_at(command: "argparse._ActionsContainer") -> None:
    command.add_argument(
        "--key-at",
        type=_rule,
        default=KeyAt.FIRST_DOT,
        metavar="DOT",
        help="where the key ends in the names of files in plain tars: first_dot (the default, WebDataset's rule), or "
        "last_dot where keys contain dots",
    )


def _audio_fields(text: str) -> tuple[str, ...]:
    try:
        return tuple(map(check_audio_field, text.split(",")))
    except HeadraceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _export(export: argparse.ArgumentParser) -> None:
    """The arguments of `export`."""
    export.add_argument("path", metavar="SOURCE", help="an output, or one of its shard folders")
    export.add_argument("target", metavar="TARGET", help="an empty folder, or an earlier export")
    _json(export)
    export.add_argument("--snapshot", type=_count(1), metavar="N", help="number of the snapshot (default: the newest)")
    export.add_argument("--split", help="only this split")
    export.add_argument("--to", default="webdataset", metavar="FORM", help="the form (default: webdataset)")
    export.add_argument("--view", metavar="NAME", help="only the samples of this view, as often as it takes them")
    export.add_argument(
        "--columns", type=_names, default=(), metavar="SETS", help="sets of columns to join, separated by commas"
    )
    export.add_argument(
        "--latents", type=_names, default=(), metavar="SETS", help="sets of latents to join, separated by commas"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: expected names, separated by commas")
    return names


def _rule(text: str) -> KeyAt:
    if text not in list(KeyAt):
        raise argparse.ArgumentTypeError(f"{text!r}: expected {' or '.join(KeyAt)}")
    return KeyAt(text)


def _share(text: str) -> Fraction:
    try:
        return share_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _job(command: argparse.ArgumentParser) -> None:
    """The options of `simulate`."""
    job = command.add_argument_group("the job")
    job.add_argument("--world-size", type=_count(1), required=True, metavar="N", help="ranks")
    job.add_argument("--batch-size", type=_count(1), required=True, metavar="N", help="samples in a batch of one rank")
    job.add_argument("--ranks-per-host", type=_count(1), metavar="N", help="ranks on a host (default: up to 8)")
    job.add_argument(
        "--step-seconds", type=float, default=0.0, metavar="S", help="seconds from one batch to the next (default 0)"
    )
    job.add_argument(
        "--bandwidth", metavar="SIZE", help="bytes a second from the store to a host, such as 1gb (default: unlimited)"
    )
    order = command.add_argument_group("what it reads, and in which order")
    order.add_argument("--split", help="only this split")
    order.add_argument("--snapshot", type=_count(1), metavar="N", help="number of the snapshot (default: the newest)")
    order.add_argument("--view", metavar="NAME", help="a view of the output")
    order.add_argument("--where", metavar="CONDITION", help="only samples that fulfil it, such as 'snr > 20'")
    order.add_argument("--latents", nargs="+", default=(), metavar="FOLDER", help="latents to join to the audio")
    _key_at(order)
    order.add_argument("--no-shuffle", action="store_true", help="storage order")
    order.add_argument("--shuffle-algo", default="block", metavar="NAME", help="block (the default) or full")
    order.add_argument("--shuffle-block-size", type=_count(1), metavar="N", help="samples in a shuffle block")
    order.add_argument(
        "--num-canonical-nodes", type=_count(1), metavar="N", help="canonical nodes that share a block (default 64)"
    )
    fetch = command.add_argument_group("how shards are fetched")
    fetch.add_argument(
        "--cache-limit", metavar="SIZE", help="size of a host's cache, such as 50gb (default: unlimited)"
    )
    fetch.add_argument("--predownload", type=_count(0), metavar="N", help="samples per rank to download ahead")
    extent = command.add_argument_group("how much is simulated")
    extent.add_argument(
        "--batches", type=_count(1), default=2000, metavar="N", help="batches of each rank and epoch (default 2000)"
    )
    extent.add_argument("--epochs", type=_count(1), default=1, metavar="N", help="epochs (default 1)")
    extent.add_argument(
        "--hosts", type=_count(1), default=2, metavar="N", help="hosts, chosen at equal distances (default 2)"
    )


class _count:  # noqa: N801 - argparse shows the name in its messages
    """The argparse type of a whole number with a least value."""

    def __init__(self, least: int) -> None:
        self._least = least

    def __call__(self, text: str) -> int:
        number = int(text)
        if number < self._least:
            raise argparse.ArgumentTypeError(f"{number} is less than {self._least}")
        return number

    def __repr__(self) -> str:
        return "whole number"
