"""Retried requests: how often, after which pauses, and how they are logged and counted."""

import contextlib
import logging
import os
import pickle
from datetime import datetime, timedelta

import pytest

from headrace.errors import NotFoundError, StorageError, StoreUnavailableError
from headrace.stores.requests import Clock, RequestCounts, StoreRequests, Transfer
from headrace.stores.retry_policy import RetryPolicy
from tests.support.dropped_errors import alive_after


class Time:
    """A clock that advances only by waiting."""

    def __init__(self):
        self.now, self.pauses, self.is_wanted = 1000.0, [], True

    def wait(self, seconds):
        self.now += seconds
        self.pauses.append(seconds)
        return self.is_wanted

    def clock(self, *draws):
        """Random draws: these numbers, then the last one repeatedly. 1 without any."""
        coming = iter(draws[:-1])
        return Clock(lambda: self.now, self.wait, lambda: next(coming, (draws or (1.0,))[-1]))


class Store:
    """A request that fails a given number of times or until a given time."""

    def __init__(self, time, failures=0, until=0.0, status=500):
        self.time, self.failures, self.until, self.status, self.asked = time, failures, until, status, []

    def __call__(self):
        self.asked.append(self.time.now)
        if self.failures or self.time.now < self.until:
            self.failures -= bool(self.failures)
            error = StoreUnavailableError("out of order")
            error.status = self.status
            raise error
        return "answer"


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def requests(time):
    return StoreRequests(time.clock())


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "headrace.stores.requests")
    return lambda: [record.message for record in caplog.records]


def ask(requests, store, retries=None, ask=lambda: None, name="s3://b"):
    return requests.done(store, retries or RetryPolicy(), name, "s3://b/a.tar", ask)


def test_a_successful_request_is_sent_once_and_not_logged(requests, time, said):
    assert ask(requests, Store(time)) == "answer"
    assert requests.counts() == RequestCounts(num_requests=1)
    assert said() == time.pauses == []


@pytest.mark.parametrize("outage", [1, 10, 119])
def test_an_outage_shorter_than_the_window_is_waited_for_and_counted(requests, time, outage):
    store = Store(time, until=time.now + outage)
    assert ask(requests, store) == "answer"
    counts = requests.counts()
    assert outage <= counts.retry_seconds <= outage + 5
    assert counts.num_requests == len(store.asked) == counts.num_retries + 1


def test_after_the_window_the_error_says_how_long_and_how_often_was_tried(requests, time):
    store = Store(time, failures=10**9)
    with pytest.raises(
        StoreUnavailableError, match=r"^s3://b/a\.tar: failed (\d+) times in 120 s, .*out of order"
    ) as e:
        ask(requests, store)
    assert store.asked[-1] - store.asked[0] == 120
    assert f"failed {len(store.asked)} times" in str(e.value)
    assert len(store.asked) < 40


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_configured_number_of_attempts_is_made(requests, time, number):
    store = Store(time, failures=10**9)
    with pytest.raises(StorageError, match=f"failed {number + 1} times"):
        ask(requests, store, RetryPolicy(number))
    assert len(store.asked) == number + 1


def test_the_pauses_of_an_outage(time):
    """They double from 0.1 s to 5 s. Each is shortened by up to a half, and the last ends with the window."""
    requests = StoreRequests(time.clock(0.0, 0.5, 0.25, 0.75, 0.0, 0.5, 0.0))
    with pytest.raises(StoreUnavailableError, match="failed 54 times in 120 s"):
        ask(requests, Store(time, failures=10**9))
    assert time.pauses == pytest.approx([0.05, 0.15, 0.25, 0.7, 0.8, 2.4, *[2.5] * 46, 0.65])
    assert requests.counts() == RequestCounts(54, 0, 53, pytest.approx(120))


def test_the_rest_of_a_requested_wait_is_added_to_the_pause(time):
    requests = StoreRequests(time.clock(1.0, 0.0))
    assert ask(requests, Store(time, failures=2, status=503), ask=lambda: 3.0) == "answer"
    assert time.pauses == pytest.approx([3.1, 0.1])
    for left in (2.0, 0.5):
        time.now, time.pauses = 1003.0 - left, []
        assert ask(requests, Store(time, failures=1, status=503), ask=lambda: 99.0) == "answer"
        assert time.pauses == pytest.approx([left + 0.05])


def test_a_store_without_retry_after_is_asked_again_after_5_seconds(time):
    questions, requests = [], StoreRequests(time.clock(0.0))
    ask(requests, Store(time, failures=9, status=503), ask=lambda: questions.append(time.now - 1000))
    assert questions == pytest.approx([0, 5.65])


@pytest.mark.parametrize(("later", "is_asked"), [(4.9, False), (5.0, True)])
def test_a_store_is_asked_again_from_5_seconds_on(requests, time, later, is_asked):
    ask(requests, Store(time, failures=1, status=503))
    time.now, questions = 1000.0 + later, []
    ask(requests, Store(time, failures=1, status=503), ask=lambda: questions.append(1))
    assert bool(questions) == is_asked


@pytest.mark.parametrize(("later", "is_asked"), [(6.9, False), (7.0, True)])
def test_a_store_is_asked_again_when_the_requested_wait_has_passed(requests, time, later, is_asked):
    ask(requests, Store(time, failures=1, status=503), ask=lambda: 7.0)
    time.now, questions = 1000.0 + later, []
    ask(requests, Store(time, failures=1, status=503), ask=lambda: questions.append(1))
    assert bool(questions) == is_asked


def test_a_requested_wait_that_has_just_passed_does_not_shorten_a_pause(requests, time):
    ask(requests, Store(time, failures=1, status=503), ask=lambda: 7.0)
    time.now, time.pauses = 1007.05, []
    ask(requests, Store(time, failures=1, status=503))
    assert time.pauses == [0.1]


@pytest.mark.parametrize(("later", "lines"), [(59.9, 2), (60.0, 4)])
def test_a_store_that_fails_again_is_logged_again_from_a_minute_on(requests, time, said, later, lines):
    ask(requests, Store(time, failures=1))
    time.now = 1000.0 + later
    ask(requests, Store(time, failures=1))
    assert len(said()) == lines


def test_a_store_that_never_recovers_is_not_said_to_work_again(requests, time, said):
    with pytest.raises(StoreUnavailableError):
        ask(requests, Store(time, failures=9), RetryPolicy(3))
    (line,) = said()
    assert " is sent again up to 3 more times (download_retry)" in line


def test_counts_begin_at_zero():
    assert tuple(StoreRequests().counts()) == (0, 0, 0, 0.0)


def test_a_transfer_takes_up_to_a_minute_by_default_and_is_compared_by_its_settings():
    assert Transfer() == Transfer(60.0, RetryPolicy(None, 120.0))


@pytest.mark.parametrize("error", [NotFoundError("gone"), StorageError("denied"), ValueError("else")])
def test_permanent_failures_are_errors_at_once(requests, time, error):
    def refuse():
        raise error

    with pytest.raises(type(error), match=str(error)):
        ask(requests, refuse)
    assert not time.pauses


@pytest.mark.parametrize(("status", "is_asked"), [(503, True), (429, True), (500, False), (None, False)])
def test_no_request_is_sent_before_the_requested_wait_has_passed(requests, time, status, is_asked):
    store = Store(time, until=time.now + 7, status=status)
    questions = []
    assert ask(requests, store, ask=lambda: questions.append(time.now) or 7.0) == "answer"
    assert (questions == store.asked[:1]) == is_asked
    assert (len(store.asked) == 2) == is_asked


def test_one_request_reads_retry_after_for_all(requests, time):
    questions = []
    for _ in range(3):
        time.now = 1000.0
        ask(requests, Store(time, failures=1, status=503), ask=lambda: questions.append(1) or 5.0)
        assert time.now >= 1005.0
    assert len(questions) == 1


def test_a_requested_wait_beyond_the_window_ends_with_the_window(requests, time):
    assert ask(requests, Store(time, failures=1, status=503), ask=lambda: 3600.0) == "answer"
    time.now += 1000.0
    time.pauses.clear()
    assert ask(requests, Store(time, failures=1, status=503), ask=lambda: None) == "answer"
    assert time.pauses == [0.1]


def test_an_outage_and_its_end_are_each_logged_once(requests, time, said):
    first = Store(time, until=time.now + 10)

    def second():
        ask(requests, first)
        return ask(requests, Store(time, until=time.now + 1))

    time.wait(3)
    assert ask(requests, second) == "answer"
    began, ended = said()
    assert began.startswith("s3://b fails: the request for s3://b/a.tar is sent again for up to 120 s, until ")
    assert "out of order" in began
    assert ended.startswith("s3://b works again after ")


def test_an_outage_lasts_until_its_last_request_succeeds_and_the_next_one_starts_a_new_count(requests, time, said):
    calls = []

    def outer():
        calls.append(time.now)
        if len(calls) == 2:
            ask(requests, Store(time, failures=1))
        if len(calls) < 3:
            raise StoreUnavailableError("out of order")
        return "answer"

    assert ask(requests, outer) == "answer"
    time.wait(100)
    ask(requests, Store(time, failures=2))
    assert [line for line in said() if "again after" in line] == [
        "s3://b works again after 0.4 s, in which 3 requests were sent again",
        "s3://b works again after 0.3 s, in which 2 requests were sent again",
    ]


def test_a_store_that_answers_no_has_recovered(requests, time, said):
    store = Store(time, failures=2)

    def missing():
        store()
        raise NotFoundError("s3://b/a.tar: not found")

    with pytest.raises(NotFoundError):
        ask(requests, missing)
    assert said()[1] == "s3://b works again after 0.3 s, in which 2 requests were sent again"


def test_the_log_line_of_an_outage_says_until_when_requests_are_retried(requests, time, said):
    before = datetime.now().astimezone()
    ask(requests, Store(time, failures=1), RetryPolicy(window_seconds=7200))
    after = datetime.now().astimezone()
    seconds = range(int((after - before).total_seconds()) + 2)
    assert any(f"until {before + timedelta(hours=2, seconds=more):%H:%M:%S} " in said()[0] for more in seconds)


def test_occasional_failures_of_a_store_are_logged_once_a_minute(requests, time, said):
    for _ in range(100):
        ask(requests, Store(time, failures=1))
        time.wait(1)
    assert 2 * 1 <= len(said()) <= 2 * 3
    assert requests.counts().num_retries == 100


def test_outages_of_two_stores_are_logged_separately(requests, time, said):
    for name in ("s3://b", "s3://c"):
        ask(requests, Store(time, failures=1), name=name)
    assert [line.split()[0] for line in said()] == ["s3://b", "s3://b", "s3://c", "s3://c"]


def test_a_cancelled_request_is_not_sent_again(requests, time, said):
    time.is_wanted = False
    store = Store(time, failures=5)
    with pytest.raises(StoreUnavailableError):
        ask(requests, store)
    assert len(store.asked) == 1
    assert len(said()) == 1


def test_counts_are_kept_per_process(requests, time):
    ask(requests, Store(time))
    requests.received(7)
    assert requests.counts() == RequestCounts(1, 7)
    assert pickle.loads(pickle.dumps(StoreRequests())).counts() == RequestCounts()
    if (child := os.fork()) == 0:
        os._exit(requests.counts() != RequestCounts())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_dropped_error_is_freed_at_once(requests, time):
    """The frames of its traceback, with batches and open files, are freed with it."""

    def use(fail):
        for number in (0, 2):
            with contextlib.suppress(StorageError):
                ask(requests, fail, RetryPolicy(number))

    assert alive_after(StoreUnavailableError, use) == (6, 0)
