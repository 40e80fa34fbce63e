"""What the fork server imports before it starts workers."""

import subprocess
import sys
from multiprocessing import forkserver

import pytest

from headrace.streaming.batches.worker_batches import start_context
from headrace.streaming.concurrency.fork_server import preload_workers


@pytest.fixture
def preloaded(monkeypatch):
    """Returns the list of modules after the loader's call, given the list before it."""

    def call(before):
        monkeypatch.setattr(forkserver._forkserver, "_preload_modules", before)
        preload_workers()
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


def test_what_is_preloaded_has_torch_and_no_client_of_a_store():
    code = (
        "import sys; from headrace.streaming.concurrency.fork_server import _PRELOADED; "
        "[__import__(name) for name in _PRELOADED[1:]]; print('torch' in sys.modules, 'obstore' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
