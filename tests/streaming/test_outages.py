"""Stores that are away for a while: what a run costs then, and when it gives up."""

import functools
import signal
import subprocess
import sys
import threading
import time

import pytest

from headrace import StreamingDataLoader, webdataset_loader
from headrace.errors import StorageError
from headrace.stores import objects
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer, open_storage
from headrace.streaming.opened import opening
from tests.support.streaming.drills import check, make, wait_for
from tests.support.streaming.fault_server import Fault

THREADS = {}
WORKERS = {"num_workers": 2}


def patient(monkeypatch, seconds):
    monkeypatch.setattr(opening, "RetryPolicy", functools.partial(RetryPolicy, window_seconds=seconds))


@pytest.fixture
def said(caplog):
    return lambda: [record.message for record in caplog.records if record.name == "headrace.stores.requests"]


def survive(server, corpus, cache, seconds, after, **settings):
    server.fail_for(seconds, after)
    loader = check(make(f"{server.uri}/audio", cache), corpus, **settings)
    server.fault = lambda request: None
    assert loader.stats.num_retries > 0
    assert loader.stats.retry_seconds >= 0.5 * seconds
    return loader


@pytest.mark.medium
@pytest.mark.parametrize("after", [0, 12], ids=["while it is opened", "while it is read"])
def test_a_time_without_answers_costs_a_run_that_time_and_two_lines_in_the_log(server, corpus, tmp_path, said, after):
    survive(server, corpus, tmp_path, 0.3, after)
    wait_for(lambda: len(said()) == 2)  # the second line is of the last request that ends, needed or not
    began, ended = said()
    assert began.startswith("s3://bucket fails: the request for s3://bucket/audio")
    assert "503" in began
    assert ended.startswith("s3://bucket works again after ")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [THREADS, WORKERS], ids=["threads", "workers"])
@pytest.mark.parametrize("seconds", [1.0, 10.0])
def test_every_run_outlives_an_outage(server, corpus, tmp_path, seconds, settings):
    for number in range(4 if seconds == 1.0 else 1):
        survive(server, corpus, tmp_path / str(number), seconds, 3 + 7 * number, **settings)


@pytest.mark.medium
def test_webdataset_loader_outlives_an_outage(server, corpus):
    loader = webdataset_loader(f"{server.uri}/audio", split="train", batch_size=8)
    server.fail_for(0.3, after=5)
    assert sorted(key for batch in loader for key in batch["keys"]) == [clip.key for clip in corpus]


@pytest.mark.medium
def test_a_store_that_is_down_for_good_is_an_error_that_says_how_long_and_how_often(server, tmp_path, monkeypatch):
    patient(monkeypatch, 0.3)
    dataset = make(f"{server.uri}/audio", tmp_path)
    server.fault = lambda request: Fault.ERROR_503
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"^s3://bucket/audio/\S+: failed \d+ times in \d\S* s, .*503"):
        list(StreamingDataLoader(dataset))
    assert 0.3 <= time.monotonic() - began < 20
    with pytest.raises(StorageError, match=r"^s3://bucket/audio\S*: failed \d+ times in \d\S* s, .*503"):
        make(f"{server.uri}/audio", tmp_path / "other")


def test_what_is_rejected_is_an_error_at_once(server, tmp_path):
    dataset = make(f"{server.uri}/audio", tmp_path)
    server.requests.clear()
    server.fault = lambda request: Fault.ERROR_403
    with pytest.raises(StorageError, match="denied"):
        dataset.get_item(0)
    assert len(server.requests) == 1


def threads_of_ours():
    return {thread for thread in threading.enumerate() if thread.name.startswith("headrace-")}


@pytest.mark.medium
def test_a_loader_that_is_closed_in_an_outage_leaves_no_thread_that_waits(server, tmp_path):
    others = threads_of_ours()  # an earlier test's request may never be answered
    late = {path.name for path in sorted((server.folder / "audio").glob("train*.tar"))[8:]}
    server.fault = lambda request: Fault.ERROR_503 if request.path.rpartition("/")[2] in late else None
    dataset = make(f"{server.uri}/audio", tmp_path, shuffle=False)
    batches = iter(StreamingDataLoader(dataset))
    next(batches)
    wait_for(lambda: dataset.reading.traffic.counts().num_retries >= 6)
    assert threads_of_ours() - others
    batches.close()
    wait_for(lambda: not threads_of_ours() - others, 30)  # they would wait for two minutes


@pytest.mark.medium
def test_a_store_that_asks_for_a_second_gets_it(server):
    audio = open_storage(f"{server.uri}/audio", Transfer())
    server.retry_after = "1"
    server.fault = lambda request: Fault.ERROR_503 if len(server.requests) <= 2 else None
    began = time.monotonic()
    assert not audio.exists("not-there.tar")
    assert time.monotonic() - began >= 1
    assert [request.method for request in server.requests] == ["HEAD", "GET", "HEAD"]  # the second asks how long


def test_a_listing_goes_on_where_it_failed(server, monkeypatch):
    server.page_keys = 7
    monkeypatch.setattr(objects, "_PAGE", 7)
    whole = [entry.path for entry in open_storage(f"{server.uri}/audio").list()]
    assert len(whole) > 21
    num_pages, failures = len(server.requests), iter([2, 3, 5])
    server.requests.clear()
    nexts = [next(failures)]

    def fail(request):
        if len(server.requests) == nexts[0]:
            nexts[0] = next(failures, 0)
            return Fault.RESET
        return None

    server.fault = fail
    assert [entry.path for entry in open_storage(f"{server.uri}/audio", Transfer()).list()] == whole
    assert len(server.requests) == num_pages + 3


WAIT = """
import sys
from headrace import StreamingDataLoader, StreamingDataset
dataset = StreamingDataset(remote=sys.argv[1], local=sys.argv[2], batch_size=4)
print("opened", flush=True)
list(StreamingDataLoader(dataset))
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", ".tar"], ids=["while it is opened", "while it is read"])
def test_ctrl_c_ends_a_run_that_waits_for_its_store(server, tmp_path, suffix):
    server.fault = lambda request: Fault.ERROR_503 if request.path.endswith(suffix) else None
    words = [sys.executable, "-c", WAIT, f"{server.uri}/audio", str(tmp_path)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert " fails: the request for " in run.stderr.readline()
    time.sleep(1.5)  # pauses of half a second and more
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert "KeyboardInterrupt" in err
    assert out == ("opened\n" if suffix else "")
    assert run.returncode != 0
