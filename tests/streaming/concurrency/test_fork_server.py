"""Imports that the fork server makes before it starts workers."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from multiprocessing import forkserver, util
from pathlib import Path

import pytest

from headrace.streaming.batches.worker_batches import start_context
from headrace.streaming.concurrency.fork_server import prepare_fork_server


@pytest.fixture
def preloaded(monkeypatch):
    """Returns the list of modules after the loader's call, given the list before it."""

    def call(before):
        monkeypatch.setattr(forkserver._forkserver, "_preload_modules", before)
        prepare_fork_server()
        return forkserver._forkserver._preload_modules

    return call


def test_the_server_imports_the_loaders_after_the_script(preloaded):
    assert preloaded(["__main__"]) == ["__main__", "headrace.streaming.loader", "headrace.plain.loader"]


def test_a_list_of_the_user_stays(preloaded):
    assert preloaded(["numpy"]) == ["numpy"]


@pytest.mark.parametrize("name", ["forkserver", "fork", "spawn"])
def test_only_workers_of_a_fork_server_are_prepared(monkeypatch, name):
    monkeypatch.setattr(forkserver._forkserver, "_preload_modules", ["__main__"])
    start_context(name, is_local=True)
    assert (len(forkserver._forkserver._preload_modules) > 1) == (name == "forkserver")


@pytest.mark.medium
def test_what_is_preloaded_has_torch_and_no_client_of_a_store():
    code = (
        "import sys; from headrace.streaming.concurrency.fork_server import _PRELOADED; "
        "[__import__(name) for name in _PRELOADED[1:]]; print('torch' in sys.modules, 'obstore' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]


@pytest.fixture
def own_server(monkeypatch):
    """A fork server of this test alone, which imports nothing."""
    server = forkserver.ForkServer()
    monkeypatch.setattr(forkserver, "_forkserver", server)
    for name in ("ensure_running", "connect_to_new_process", "get_inherited_fds"):
        monkeypatch.setattr(forkserver, name, getattr(server, name))
    server.set_forkserver_preload([])
    yield server
    server._stop()


@pytest.mark.parametrize("gone", ["socket", "folder"])
def test_a_server_whose_socket_was_cleaned_away_is_replaced(own_server, gone):
    def run():
        process = multiprocessing.get_context("forkserver").Process(target=os.getpid)
        process.start()
        process.join(60)
        return process.exitcode

    assert run() == 0
    first = own_server._forkserver_pid
    prepare_fork_server()
    assert own_server._forkserver_pid == first
    Path(own_server._forkserver_address).unlink() if gone == "socket" else shutil.rmtree(util.get_temp_dir())
    with pytest.raises((FileNotFoundError, ConnectionError)):
        run()
    prepare_fork_server()
    assert run() == 0
    assert own_server._forkserver_pid != first
