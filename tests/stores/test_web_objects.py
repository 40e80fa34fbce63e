"""Objects of web servers whose answers obstore does not accept."""

import contextlib
import io
from types import SimpleNamespace

import pytest

from headrace.errors import NotFoundError, StorageError, StoreUnavailableError
from headrace.stores import web_objects
from headrace.stores.web_objects import NoRangesError, is_odd, read_range, read_whole, size_and_tag
from tests.support.web_server import Reply, web_servers

URL = "http://host/a.tar"
BLOB = bytes(range(100))


@pytest.fixture
def answer(monkeypatch):
    """A function that sets the answer of the server: status, headers and bytes."""

    def set_answer(status, blob=BLOB, **headers):
        @contextlib.contextmanager
        def answered(url, timeout_seconds, headers_sent):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            yield SimpleNamespace(status=status, reason="Reason", headers=named, read=io.BytesIO(blob).read)

        monkeypatch.setattr(web_objects, "answered", answered)

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
    [
        (304, StorageError),
        (403, StorageError),
        (404, NotFoundError),
        (410, NotFoundError),
        (503, StoreUnavailableError),
    ],
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
    def fail(url, timeout_seconds, headers):
        raise error

    monkeypatch.setattr(web_objects, "answered", fail)
    with pytest.raises(StoreUnavailableError, match=f"{URL}: {said}"):
        read_whole(URL, 1.0)


def test_redirects_are_followed_with_the_range_and_without_the_token():
    asked = []

    def at_first(request):
        asked.append(request)
        places = {"/a": "/b?c=1", "/b?c=1": f"{urls[1]}/d", "/round": "/round", "/file": "file:///etc/passwd"}
        return Reply(307, {"Location": places[request.path]}, b"moved")

    def elsewhere(request):
        asked.append(request)
        return Reply(206, {"Content-Range": "bytes 10-19/100"}, BLOB[10:20])

    with web_servers(at_first, elsewhere) as urls:
        assert read_range(f"{urls[0]}/a", 10, 20, 5.0, "hf_token") == BLOB[10:20]
        assert [request.path for request in asked] == ["/a", "/b?c=1", "/d"]
        assert [request.headers["Range"] for request in asked] == ["bytes=10-19"] * 3
        assert [request.headers.get("Authorization") for request in asked] == ["Bearer hf_token", None, None]
        for path, said in (("/round", "the server answers 307"), ("/file", "not a valid URL")):
            with pytest.raises(StorageError, match=f"{path}: {said}"):
                read_whole(f"{urls[0]}{path}", 5.0)


def test_only_answers_of_web_servers_that_obstore_rejects_are_odd():
    assert is_odd(ValueError("Content-Length Header missing from response"), URL)
    assert is_odd(ValueError("Error performing HEAD http://host/a.tar: status code: 405"), URL)
    assert not is_odd(ValueError("Content-Length Header missing from response"), "s3://bucket/a.tar")
    assert not is_odd(ValueError("status code: 404"), URL)
