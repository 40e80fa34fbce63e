"""Runs a PostgreSQL server for one test, on loopback, in a temporary folder, never as root."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.ports import reserved_port

_USER = "postgres"  # PostgreSQL does not run as root; packages create this user
_SYSTEM = Path("/usr/lib/postgresql")  # Debian's folder of the programs, by version


def find_server() -> Path | None:
    """The folder of `initdb` and `pg_ctl`. None if there is no server, or if root has no user to run it as."""
    if os.geteuid() == 0 and _USER not in {entry.pw_name for entry in pwd.getpwall()}:
        return None
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(_SYSTEM.glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    return versions[-1].parent if versions else None


@contextlib.contextmanager
def postgres_url(programs: Path) -> Iterator[str]:
    """The URL of an empty database. At the end, its server stops and its files are deleted."""
    user = _USER if os.geteuid() == 0 else None
    # Not below pytest's temporary folder: only the user that runs the tests may enter it.
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp"))
    data = folder / "data"

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(data), *arguments]
        with (folder / "log").open("ab") as log:
            subprocess.run(command, user=user, group=user, cwd=folder, check=True, timeout=180, stdout=log, stderr=log)

    try:
        if user is not None:
            shutil.chown(folder, user, user)
        call("initdb", "--username=dagster", "--auth=trust", "--encoding=UTF8", "--no-sync")
        with reserved_port() as port:
            options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
            call("pg_ctl", "-w", "-o", options, "-l", str(folder / "server.log"), "start")
        yield f"postgresql+psycopg2://dagster@127.0.0.1:{port}/postgres"
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # the server did not start
            call("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)
