"""Fixtures for all tests."""

import contextlib
import gc
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headrace.streaming.concurrency.fork_server import prepare_fork_server
from tests.support.change_times import restored_stamp
from tests.support.leases import LEASES
from tests.support.s3 import one_write_at_a_time
from tests.support.undrawn import nothing_drawn

collect_ignore = ["readers/clusters", "readers/exports", "readers/writers"]  # scripts that run in other environments

# A busy machine is not an error, so no example is too slow. All runs use the same examples, so none fails by chance:
# look for new ones with `pytest --hypothesis-profile=random`. Mutants are found with 25 of them (tools/mutant_runs.py).
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _PATIENT, derandomize=True, max_examples=40)
settings.register_profile("random", _PATIENT, derandomize=False)
settings.load_profile("same")


def pytest_configure():
    """Restore the default handling of Ctrl-C, because background jobs of a shell inherit that it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    prepare_fork_server()  # whichever test starts it


def pytest_collection_modifyitems(items):
    """Begin with the file that takes ten minutes by itself, so that no process waits for it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/live/test_live.py"))


def pytest_collection_finish():
    """Exempt what was imported from garbage collection: a full one then takes milliseconds, not half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
    """The temporary folder of all processes, with a short path for sockets. pytest deletes it with its own."""
    folder = str(tmp_path_factory.mktemp("t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """The cache folder of datasets that are opened without `local`, instead of the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.streaming.opened.opening.default_cache_folder", lambda: folder)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_workers_unless_asked():
    """Let `webdataset_loader` start no processes by default: most tests look at what is read, not at who reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.plain.loader._WORKERS", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def change_times_of_restored_files():
    """Stamp files that `tests.support.built` restored with the change times of their originals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.sources.listing.FileStamp.of", restored_stamp)
        yield


@pytest.fixture(scope="module", autouse=True)
def leases():
    """Release the leases of a test file when its last test has ended."""
    with LEASES:
        yield


@pytest.fixture(autouse=True)
def forgotten_batch_limits():
    """Forget what earlier tests found to fit a device: encoders of tests have fingerprints of others."""
    yield
    if worker := sys.modules.get("headrace.encoding.device_worker"):
        worker._FITTING.clear()


@pytest.fixture
def closed_by_webdataset(monkeypatch):
    """Close the files of WebDataset's own reader, which leaves them to the cycle collector."""
    with contextlib.ExitStack() as files:

        def opened(path, *args, **options):
            return files.enter_context(Path(path).open(*args, **options))

        monkeypatch.setattr("webdataset.cache.open", opened, raising=False)
        yield


@pytest.fixture
def undrawn():
    """Omit the images of assets and reports."""
    with nothing_drawn():
        yield


@pytest.fixture(scope="session")
def s3_server():
    """A moto S3 server on loopback. Each test makes a bucket of its own (`tests.support.s3.new_bucket`)."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with one_write_at_a_time():
        server.start()
        yield "http://{}:{}".format(*server.get_host_and_port())
        server.stop()
