"""The `Retry-After` request: responses that are not HTTP, and names that need URL encoding."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.stores.retry_after import asked_pause, seconds_of
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer, open_storage


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server on loopback. Gives its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class Garbled(BaseHTTPRequestHandler):
    """Answers with bytes that are not HTTP, as a failing proxy may do."""

    def handle_one_request(self) -> None:
        """See `BaseHTTPRequestHandler`."""
        self.rfile.readline()
        self.wfile.write(b"no proxy here\r\n\r\n")
        self.close_connection = True


def overloaded(times: int, asked: list[str]) -> type[BaseHTTPRequestHandler]:
    """A handler that answers 503 at first and records the paths."""

    class Overloaded(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            is_well = len(asked) > times
            self.send_response(200 if is_well else 503)
            self.send_header("Content-Length", "4" if is_well else "0")
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 12:00:00 GMT")
            if not is_well:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(b"data" if is_well else b"")

    return Overloaded


def test_a_response_that_is_not_http_requests_no_pause() -> None:
    with serving(Garbled) as url:
        assert asked_pause(f"{url}/a.tar") is None


@pytest.mark.parametrize(("name", "sent"), [("a b.tar", "/a%20b.tar"), ("ä#1.tar", "/%C3%A4%231.tar")])
def test_requests_for_any_object_name_survive_an_outage(name: str, sent: str) -> None:
    asked: list[str] = []
    with serving(overloaded(2, asked)) as url:
        storage = open_storage(url, Transfer(retries=RetryPolicy(1)))
        assert storage.read(name) == b"data"
    assert asked == [sent] * 3  # the failed request, the request for the header, the retry


def answering(status: int, header: str | None) -> type[BaseHTTPRequestHandler]:
    """A handler that answers a status, with or without Retry-After."""

    class Answering(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

        def do_GET(self) -> None:
            self.send_response(status)
            if header is not None:
                self.send_header("Retry-After", header)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Answering


@pytest.mark.parametrize(
    ("status", "header", "pause"),
    [(503, "7", 7.0), (429, "8", 8.0), (503, None, None), (500, "7", None), (200, "7", None), (503, "soon", None)],
)
def test_an_overloaded_server_is_waited_for_as_long_as_it_asks(status: int, header: str, pause: float | None) -> None:
    with serving(answering(status, header)) as url:
        assert asked_pause(url) == pause


@pytest.mark.parametrize(
    "url", ["memory://a", "http://127.0.0.1:1/closed", "http://127.0.0.1:none/", "file:///etc/hosts"]
)
def test_a_store_that_cannot_be_asked_requests_no_pause(url: str) -> None:
    assert asked_pause(url) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (" 7 ", 7.0),
        ("Thu, 01 Jan 2026 11:59:00 GMT", 0.0),  # it has passed
        ("Thu, 01 Jan 2026 12:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 12:00:00", None),  # no time zone
        ("\u0667", None),  # a digit, but not one of HTTP
        ("7.5", None),
        ("-7", None),
    ],
)
def test_headers_with_a_wait(header: str, seconds: float | None) -> None:
    assert seconds_of(header, datetime(2026, 1, 1, 12, tzinfo=UTC)) == seconds
