"""Damaged responses are fetched again as often as configured, and the log reports only fetches that happen."""

import logging

import pytest

from headrace.errors import FormatError, IntegrityError, SampleCountError
from headrace.stores import refetch
from headrace.stores.refetch import read_sound, sources, until_sound
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer, open_storage


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that were waited for; no time passes."""
    pauses = []
    monkeypatch.setattr(refetch, "wait", lambda seconds: not pauses.append(seconds))
    return pauses


@pytest.mark.parametrize("num_retries", [0, 1])
def test_the_log_reports_an_object_as_fetched_again_only_if_it_is(caplog, num_retries):
    attempts = []

    def fetch(source):
        attempts.append(source)
        raise FormatError("a.idx: damaged")

    with caplog.at_level(logging.WARNING), pytest.raises(FormatError, match=r"a\.idx: damaged \(downloaded"):
        until_sound(fetch, open_storage("memory://", Transfer(retries=RetryPolicy(num_retries))), "a.idx")
    assert len(attempts) == 1 + num_retries
    assert len(caplog.records) == num_retries


def failing(attempts, error):
    def fetch(source):
        attempts.append(source)
        raise error

    return fetch


@pytest.mark.parametrize("transfer", [None, Transfer()])
def test_a_store_without_download_retry_has_two_further_attempts_after_the_usual_pauses(pauses, transfer):
    assert len(list(sources(open_storage("memory://", transfer)))) == 3
    assert pauses == [0.1, 0.2]


def test_a_local_folder_is_read_again_only_if_its_objects_are_copied(pauses, tmp_path):
    assert len(list(sources(open_storage(tmp_path)))) == 1
    assert len(list(sources(open_storage(tmp_path), copies=True))) == 3


def test_further_attempts_go_past_all_caches(pauses):
    first, *others = sources(open_storage("http://127.0.0.1:1/shards", Transfer(retries=RetryPolicy(1))))
    assert not first.is_past_caches
    assert [(other.is_past_caches, other.uri, other.transfer) for other in others] == [
        (True, first.uri, first.transfer)
    ]


def test_no_attempt_follows_a_wait_that_was_ended(monkeypatch):
    monkeypatch.setattr(refetch, "wait", lambda seconds: False)
    assert len(list(sources(open_storage("memory://")))) == 1


@pytest.mark.parametrize("error", [FormatError("x: damaged"), IntegrityError("x: other bytes")])
def test_the_error_of_a_store_says_how_often_it_was_asked(pauses, error):
    attempts = []
    with pytest.raises(type(error), match=r"\(downloaded 3 times, past all caches\)$"):
        until_sound(failing(attempts, error), open_storage("memory://"), "x")
    assert len(attempts) == 3
    with pytest.raises(type(error), match=r"\(downloaded once\)$"):
        until_sound(failing([], error), open_storage("memory://", Transfer(retries=RetryPolicy(0))), "x")


def test_the_error_of_a_folder_stays_as_it_is(pauses, tmp_path):
    attempts = []
    with pytest.raises(FormatError, match=r"^x: damaged$"):
        until_sound(failing(attempts, FormatError("x: damaged")), open_storage(tmp_path), "x")
    assert len(attempts) == 1


def test_a_wrong_number_of_samples_is_an_error_at_once(pauses):
    attempts = []
    with pytest.raises(SampleCountError):
        until_sound(failing(attempts, SampleCountError("x: 3 samples")), open_storage("memory://"), "x")
    assert len(attempts) == 1


def test_the_log_has_the_first_error_once_however_often_it_is_fetched(pauses, caplog):
    errors = [FormatError("first"), FormatError("second")]

    def fetch(source):
        if errors:
            raise errors.pop(0)
        return "sound"

    with caplog.at_level(logging.WARNING):
        assert until_sound(fetch, open_storage("memory://"), "x") == "sound"
    assert [record.message for record in caplog.records] == ["x arrived damaged, and is downloaded again: first"]


@pytest.mark.parametrize(("first", "parsed"), [(None, [b"stored"]), (b"damaged", [b"damaged", b"stored"])])
def test_bytes_that_were_read_already_are_the_first_attempt(pauses, first, parsed):
    storage, seen = open_storage("memory://"), []
    storage.write("a.idx", b"stored")

    def parse(data, name):
        seen.append(data)
        if data == b"damaged":
            raise FormatError(f"{name}: damaged")
        return name

    assert read_sound(storage, "a.idx", parse, first) == f"{storage.uri}/a.idx"
    assert seen == parsed
