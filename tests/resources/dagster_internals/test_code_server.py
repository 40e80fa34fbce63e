"""Tests of `headrace_dagster.resources.dagster_internals.code_server`."""

import os
import shutil
import subprocess
import sys

import pytest

from headrace_dagster.resources.dagster_internals.code_server import code_server


@pytest.mark.parametrize("has_proc", [True, False])
def test_the_code_server_is_found_by_the_command_line_of_the_parent_process(tmp_path, monkeypatch, has_proc):
    if not has_proc:  # as on macOS
        if shutil.which("ps") is None:
            pytest.skip("this system has no ps")
        monkeypatch.setattr("headrace_dagster.resources.dagster_internals.code_server._PROC", tmp_path)
    command = [sys.executable, "-c", "print(flush=True), input()", "code-server", "start", "--port", "4321"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        parent.stdout.readline()  # the kernel shows its command line a moment after it began
        monkeypatch.setattr("os.getppid", lambda: parent.pid)
        found = code_server()
        parent.communicate("\n")
    assert found is not None
    assert (found.host, found.port) == ("localhost", 4321)


def test_a_parent_that_is_not_a_code_server_is_not_asked(monkeypatch):
    monkeypatch.setattr("os.getppid", os.getpid)
    assert code_server() is None
