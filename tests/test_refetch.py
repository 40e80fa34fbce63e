"""Damaged responses are fetched again as often as configured, and the log reports only fetches that happen."""

import logging

import pytest

from headrace.errors import FormatError
from headrace.stores.refetch import until_sound
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer, open_storage


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
