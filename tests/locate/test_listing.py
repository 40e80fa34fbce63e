"""Tests of `headrace.locate.listing`."""

import pytest

from headrace.errors import StorageError
from headrace.locate.listing import UnlistedError, listed_snapshots


class Answering:
    """A store whose listing fails."""

    uri = "http://server/set"

    def __init__(self, text):
        self.text = text

    def list(self, prefix=""):
        raise StorageError(f"{prefix} in {self.uri}: {self.text}")


REFUSAL = "Error performing PROPFIND http://server/set in 1ms - Server returned non-2xx status code: "


@pytest.mark.parametrize(
    "text",
    [
        f"Generic HTTP error: {REFUSAL}405 Method Not Allowed: ",
        f"Generic HTTP error: {REFUSAL}501 Not Implemented: <html>",
        f"The operation lacked the necessary privileges: {REFUSAL}403 Forbidden: ",
        "Generic HTTP error: Error decoding PROPFIND response: ill-formed document",
    ],
)
def test_a_server_that_refuses_to_list_is_known_by_its_answer(text):
    with pytest.raises(UnlistedError, match=r"http://server/set: .*brace pattern"):
        listed_snapshots(Answering(text))


@pytest.mark.parametrize(
    "text",
    [
        f"Generic HTTP error: {REFUSAL}500 Internal Server Error: ",
        f"Generic HTTP error: {REFUSAL}429 Too Many Requests: ",
        "Generic HTTP error: Error performing PROPFIND http://server/set in 1ms - HTTP error: error sending request",
    ],
)
def test_a_failure_that_may_pass_is_not_taken_for_a_server_that_lists_nothing(text):
    """An output of ours would be read with the shards of old snapshots."""
    with pytest.raises(StorageError):
        listed_snapshots(Answering(text))
