"""Objects of web servers whose answers obstore does not accept."""

import contextlib
import io
import urllib.error
from email.message import Message
from types import SimpleNamespace

import pytest

from headrace.errors import NotFoundError, StorageError, StoreUnavailableError
from headrace.stores import web_objects
from headrace.stores.web_objects import NoRangesError, is_odd, read_range, read_whole, size_and_tag

URL = "http://host/a.tar"
BLOB = bytes(range(100))


@pytest.fixture
def answer(monkeypatch):
    """A function that sets the answer of the server: status, headers and bytes."""

    def set_answer(status, blob=BLOB, **headers):
        @contextlib.contextmanager
        def opened(request, timeout):
            if status >= 400:
                raise urllib.error.HTTPError(URL, status, "Reason", Message(), io.BytesIO())
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            yield SimpleNamespace(status=status, headers=named, read=io.BytesIO(blob).read)

        monkeypatch.setattr(web_objects.urllib.request, "urlopen", opened)

    return set_answer


def test_a_range_is_read_whether_the_answer_says_the_size_or_not(answer):
    for size in ("100", "*"):
        answer(206, BLOB[10:20], Content_Range=f"bytes 10-19/{size}")
        assert read_range(URL, 10, 20, 1.0) == BLOB[10:20]


@pytest.mark.parametrize("said", ["bytes 11-20/100", "bytes 10-20/100", "nonsense", ""])
def test_an_answer_of_another_range_may_pass(answer, said):
    answer(206, BLOB[10:20], Content_Range=said)
    with pytest.raises(StoreUnavailableError, match="bytes 10-19 requested"):
        read_range(URL, 10, 20, 1.0)


def test_a_server_without_ranges_is_an_error_with_the_ways_out(answer):
    answer(200)
    with pytest.raises(NoRangesError, match=r"nginx.*webdataset_loader"):
        read_range(URL, 10, 20, 1.0)


def test_the_size_comes_from_the_range_the_length_or_the_bytes_themselves(answer):
    answer(206, BLOB[:1], Content_Range="bytes 0-0/100")
    assert size_and_tag(URL, 1.0)[0] == 100
    answer(200, Content_Length="100")
    assert size_and_tag(URL, 1.0)[0] == 100
    answer(200)
    assert size_and_tag(URL, 1.0)[0] == 100
    answer(206, Content_Range="bytes 0-0/*", Content_Length="1")
    assert size_and_tag(URL, 1.0)[0] == 100


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFoundError), (410, NotFoundError), (403, StorageError), (503, StoreUnavailableError)],
)
def test_refusals_are_errors_by_their_status(answer, status, error):
    answer(status)
    with pytest.raises(StorageError, match=URL) as caught:
        read_whole(URL, 1.0)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("error", "said"), [(ConnectionResetError("reset by peer"), "reset by peer"), (TimeoutError(), "TimeoutError")]
)
def test_a_connection_that_fails_may_pass_and_says_why(monkeypatch, error, said):
    def fail(request, timeout):
        raise error

    monkeypatch.setattr(web_objects.urllib.request, "urlopen", fail)
    with pytest.raises(StoreUnavailableError, match=f"{URL}: {said}"):
        read_whole(URL, 1.0)


def test_only_answers_of_web_servers_that_obstore_rejects_are_odd():
    assert is_odd(ValueError("Content-Length Header missing from response"), URL)
    assert is_odd(ValueError("Error performing HEAD http://host/a.tar: status code: 405"), URL)
    assert not is_odd(ValueError("Content-Length Header missing from response"), "s3://bucket/a.tar")
    assert not is_odd(ValueError("status code: 404"), URL)
