"""What tests of any folder may ask for."""

import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

collect_ignore = ["clusters"]  # scripts of other environments

# A busy machine is no fault: no example is too slow. All runs see the same examples, so that none fails by chance:
# look for new ones with `pytest --hypothesis-profile=random`.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _PATIENT, derandomize=True)
settings.register_profile("random", _PATIENT, derandomize=False)
settings.load_profile("same")


def pytest_configure():
    """Let the processes that tests start be interrupted: a shell's background jobs inherit that Ctrl-C is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
    """Where all processes put what is temporary: what the killed leave goes with pytest's own. Short, for sockets."""
    folder = str(tmp_path_factory.mktemp("t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """Where data sets that are opened without `local` keep what they fetch and index: not the user's own folder."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.streaming.opening.default_cache_folder", lambda: folder)
        yield folder


@pytest.fixture
def undrawn(monkeypatch):
    """Assets and reports without their pictures, which are a third of a small build: for tests of other things."""
    for name in ("histogram", "waveforms", "latents_below_spectrogram"):
        monkeypatch.setattr(f"assets.metadata.{name}", lambda *data: "a picture")
    for name in ("histogram", "bars", "growth", "waveform", "spectrogram", "latents"):
        monkeypatch.setattr(f"headrace.report.figures.{name}", lambda *data: "<svg></svg>")


@pytest.fixture(scope="module")
def s3_server():
    """S3 as moto plays it, on loopback."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()
