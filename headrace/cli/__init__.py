"""The command `headrace`: looking at data sets, checking and handing them on, without Dagster.

Owns arguments, exit codes and the promise that no expected error shows a traceback. What a command does is a module of
the library each; how it is shown is `commands` and `tables`.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from headrace.errors import HeadraceError
from headrace.machine import num_cores

EPILOG = """\
exit codes: 0 done and sound · 1 something is off or could not be done, and is listed · 2 wrong arguments ·
130 interrupted

Paths may be folders or object-store URLs (s3://bucket/prefix; credentials come from the environment, AWS_…).
"""

DESCRIPTIONS = {
    "inspect": """\
Show what is in a data set: splits, shards, samples, hours, bytes, lengths, snapshots, encoders, and refused files with
their reasons. PATH is an output of Headrace, one of its shard folders, or any folder, glob or sizes.json of WebDataset
tars. Reads snapshots and indexes only, so it is quick on data sets of any size.
""",
    "verify": """\
Read every byte of every shard again and compare: the bytes with the digest in the shard's name, the .idx with one made
again from the tar, sizes.json with the snapshot, the snapshot with its manifests; and decode some samples of each
shard. PATH is as for inspect; of anybody's tars it checks that they are whole WebDatasets, and their .idx and
sizes.json where there are some. Lists what is off and exits with 1. Changes nothing.
""",
    "index": """\
Write the .idx beside each tar that matches, and the sizes.json of their folder: then loaders know lengths, and
headrace.StreamingDataset starts at once and reads at random. GLOB is a folder, a shell glob or a brace pattern; quote
it. Each file is written whole or not at all; sizes.json is written last and only if every tar is sound, and keeps its
entries for other tars. A tar that is cut off or no WebDataset is listed, and the exit code is 1.
""",
    "export": """\
Lay out one snapshot as the plain WebDataset that other tools expect: train_000000.tar, train_000001.tar, …, one
sizes.json, and indexes. On one local disk the tars are hard links that cost no space; otherwise copies. SOURCE is a
shard folder, or an output, of which the audio is meant. TARGET is an empty folder or a former export, which is brought
up to date: its hidden .headrace-export.json names the tars that may be replaced or removed. A folder of other files, or
with tars that no export wrote, is refused. Never write into the exported tars: they may be the data set's own.
""",
    "gc": """\
Remove what nothing needs any more: snapshots but the newest --keep of audio and of each set of latents, manifests and
shards that neither a kept snapshot nor the newest manifest of a partition names, and temporary files of writers that
died. Audio snapshots that kept latents were computed from stay. Nothing younger than a day is removed, so a build may
be running; training jobs on a snapshot that goes will fail. Removes at once: try --dry-run first, which only lists.
""",
    "simulate": """\
Tell before a training job runs what it will ask of its hosts: shards and bytes each of them reads, the cache it needs,
and with --bandwidth and --step-seconds how long it waits. No shard is read, since the order is a function. PATH is as
for inspect; a local one is taken as if it came from a store. The options are StreamingDataset's arguments of the same
names; its other arguments can be simulated from Python: StreamingDataset(…, world=World(0, 64)).simulate(Cluster(8)).
""",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        from headrace.cli import commands  # noqa: PLC0415 - so that --help starts at once

        return commands.COMMANDS[options.command](options)
    except HeadraceError as error:
        print(f"headrace {options.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output left: `headrace inspect … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"headrace {options.command}: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    top = argparse.ArgumentParser(
        "headrace",
        description="Look at audio data sets in WebDataset shards, check them, and hand them on.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _path(_command(commands, "inspect", "show what is in a data set"))

    verify = _command(commands, "verify", "re-read shards against their digests and indexes")
    _path(verify)
    _jobs(verify)
    verify.add_argument(
        "--sample", type=_count(0), default=1, metavar="K", help="samples to decode of each shard (default 1)"
    )

    index = _command(commands, "index", "write sizes.json and .idx for anybody's WebDataset tars")
    index.add_argument("path", metavar="GLOB", help="folder, shell glob or brace pattern; quote it")
    _jobs(index)

    export = _command(commands, "export", "lay out a snapshot as plain train_000000.tar …")
    export.add_argument("path", metavar="SOURCE", help="an output, or one of its shard folders")
    export.add_argument("target", metavar="TARGET", help="an empty folder, or a former export")
    export.add_argument("--snapshot", type=_count(1), metavar="N", help="number of the snapshot (default: the newest)")
    export.add_argument("--split", help="only this split")

    gc = _command(commands, "gc", "remove old snapshots and the shards that only they name")
    gc.add_argument("path", metavar="OUTPUT", help="a data set's output: the folder with audio/ in it")
    gc.add_argument("--keep", type=_count(1), default=10, metavar="N", help="snapshots to keep (default 10)")
    gc.add_argument("--dry-run", action="store_true", help="list what would go, and remove nothing")

    simulate = _command(commands, "simulate", "what a training job will ask of its hosts")
    _path(simulate)
    _job(simulate)
    return top


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


def _jobs(command: argparse.ArgumentParser) -> None:
    cores = num_cores()
    command.add_argument(
        "--jobs", type=_count(1), default=cores, metavar="N", help=f"shards read at a time (default here: {cores})"
    )


def _job(command: argparse.ArgumentParser) -> None:
    """The options of `simulate`."""
    job = command.add_argument_group("the job")
    job.add_argument("--world-size", type=_count(1), required=True, metavar="N", help="ranks")
    job.add_argument("--batch-size", type=_count(1), required=True, metavar="N", help="samples of a batch on one rank")
    job.add_argument("--ranks-per-host", type=_count(1), metavar="N", help="ranks on a host (default: up to 8)")
    job.add_argument("--step-seconds", type=float, default=0.0, metavar="S", help="from one batch to the next (0)")
    job.add_argument("--bandwidth", metavar="SIZE", help="bytes a second from the store to a host: 1gb (default: any)")
    order = command.add_argument_group("what it reads, and in which order")
    order.add_argument("--split", help="only this split")
    order.add_argument("--snapshot", type=_count(1), metavar="N", help="number of the snapshot (default: the newest)")
    order.add_argument("--latents", nargs="+", default=(), metavar="FOLDER", help="latents to join to the audio")
    order.add_argument("--no-shuffle", action="store_true", help="storage order")
    order.add_argument("--shuffle-algo", default="block", metavar="NAME", help="block (the default) or full")
    order.add_argument("--shuffle-block-size", type=_count(1), metavar="N", help="samples mixed with each other")
    order.add_argument("--num-canonical-nodes", type=_count(1), metavar="N", help="walks through a block (default 64)")
    fetch = command.add_argument_group("how shards are fetched")
    fetch.add_argument("--cache-limit", metavar="SIZE", help="of a host's cache: 50gb (default: none)")
    fetch.add_argument("--predownload", type=_count(0), metavar="N", help="samples per rank to download ahead")
    extent = command.add_argument_group("how much is simulated")
    extent.add_argument("--batches", type=_count(1), default=2000, metavar="N", help="of each rank (default 2000)")
    extent.add_argument("--hosts", type=_count(1), default=2, metavar="N", help="evenly chosen (default 2)")


class _count:  # noqa: N801 - argparse shows the name in its messages
    """A whole number that is at least so large."""

    def __init__(self, least: int) -> None:
        self._least = least

    def __call__(self, text: str) -> int:
        number = int(text)
        if number < self._least:
            raise argparse.ArgumentTypeError(f"{number} is less than {self._least}")
        return number

    def __repr__(self) -> str:
        return "whole number"
