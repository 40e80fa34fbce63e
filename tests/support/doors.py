"""Commands and files for tests of what a user may name."""

from headrace import cli
from headrace.cli import commands

JOB = ["--world-size", "1", "--batch-size", "1"]


def run(command, remote, *options):
    """Run a command as the command line does, without turning errors into text."""
    return commands.COMMANDS[command](cli.parser().parse_args([command, str(remote), *map(str, options)]))


def write(folder, files):
    for name, blob in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(blob)
