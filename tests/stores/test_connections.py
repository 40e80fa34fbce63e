"""Connections that stay open, on a server that counts them."""

import contextlib
import os
import select
import signal
import ssl
import threading
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPException, InvalidURL

import pytest

from headrace.stores import connections
from headrace.stores.connections import answered, redirected
from tests.support.web_server import Reply, Request, web_servers

BODY = b"0123456789"


class Server:
    """Answers with `replies` in turn, then with `BODY`; records requests and the connections that were open."""

    def __init__(self):
        self.replies, self.asked, self.ports = [], [], []

    def reply(self, request: Request) -> Reply:
        """Answer a request."""
        self.asked.append(request)
        self.ports.append(request.port)
        return self.replies.pop(0) if self.replies else Reply(body=BODY)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with its address as `url`, to which no connection is open."""
    connections._idle(os.getpid()).close()
    made = Server()
    with web_servers(made.reply) as (made.url,):
        yield made


def read(url, **more):
    with answered(url, 5.0, **more) as answer:
        return answer.read()


def the_kept():
    (kept,) = (connection for *_, connection in connections._idle(os.getpid())._kept)
    return kept


def test_requests_after_one_another_use_one_connection(server):
    for number in range(3):
        assert read(f"{server.url}/a?b=%20{number}#c", headers={"Range": "bytes=1-2"}) == BODY
    assert read(server.url, method="HEAD") == b""
    assert len(set(server.ports)) == 1
    assert [one.path for one in server.asked] == ["/a?b=%200", "/a?b=%201", "/a?b=%202", "/"]
    assert server.asked[0].headers["Range"] == "bytes=1-2"
    assert server.asked[3].method == "HEAD"


def test_requests_at_a_time_use_connections_of_their_own_and_other_threads_use_them_again(server):
    with answered(server.url, 5.0) as first, answered(server.url, 5.0) as second:
        assert first.read() + second.read() == BODY + BODY
    threads = [threading.Thread(target=read, args=(server.url,)) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(set(server.ports)) == 2


def test_an_answer_that_is_not_read_to_its_end_ends_its_connection(server):
    with answered(server.url, 5.0) as answer:
        assert answer.read(1) == BODY[:1]
    assert read(server.url) == BODY
    assert len(set(server.ports)) == 2


def test_a_server_that_closes_its_connection_is_asked_over_a_new_one(server):
    server.replies = [Reply(is_last=True, headers={"Connection": "close"})]
    assert [read(server.url), read(server.url)] == [b"", BODY]
    assert len(set(server.ports)) == 2


def test_connections_that_were_closed_since_cost_no_error(server):
    with answered(server.url, 5.0) as first, answered(server.url, 5.0) as second:
        first.read(), second.read()
    server.replies = [Reply(is_broken=True), Reply(is_broken=True)]  # both kept connections end without an answer
    assert read(server.url) == BODY
    assert len(server.asked) == 5


@pytest.mark.parametrize("error", [BrokenPipeError, ssl.SSLEOFError])
def test_a_connection_that_ends_while_it_is_written_to_costs_no_error(server, error, monkeypatch):
    def ended(*_, **__):
        raise error

    read(server.url)
    monkeypatch.setattr(the_kept(), "request", ended)
    assert read(server.url) == BODY
    assert len(set(server.ports)) == 2


def test_no_system_call_holds_the_lock_for_which_other_threads_wait(server, monkeypatch):
    is_silent, held = connections._is_silent, []

    def noted(connection):
        held.append(connections._idle(os.getpid())._lock.locked())
        return is_silent(connection)

    monkeypatch.setattr(connections, "_is_silent", noted)
    assert read(server.url) == read(server.url) == BODY
    assert held == [False]


def test_what_a_server_says_unasked_answers_no_request(server):
    """More than Python's client reads in advance."""
    server.replies = [Reply(raw=Reply(body=BODY).encoded("GET") + Reply(body=b"x" * 10_000).encoded("GET") * 5)]
    assert read(server.url) == BODY
    assert select.select([the_kept().sock], [], [], 30)[0]
    assert read(server.url) == BODY
    assert len(set(server.ports)) == 2


@pytest.mark.parametrize("status", [102, 103])
def test_an_interim_answer_is_an_error_rather_than_the_answer_to_this_request_and_the_next(server, status):
    server.replies = [Reply(status, headers={"Content-Length": ""})]
    with pytest.raises(HTTPException, match=f"answers {status}"), answered(server.url, 5.0):
        pass
    assert read(server.url) == BODY
    assert len(set(server.ports)) == 2


def test_an_answer_that_is_damaged_ends_its_connection(server):
    server.replies = [Reply(headers={"Transfer-Encoding": "chunked", "Content-Length": ""}, body=b"zz\r\n")]
    with pytest.raises(HTTPException):
        read(server.url)
    assert read(server.url) == BODY
    assert len(set(server.ports)) == 2


def test_a_forked_process_ends_though_a_thread_of_its_parent_was_looking_for_a_connection():
    idle = connections._Idle()
    with idle._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            idle.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_new_connection_that_breaks_is_an_error_after_one_request(server):
    server.replies = [Reply(is_broken=True)]
    with pytest.raises(ConnectionError):
        read(server.url)
    assert len(server.asked) == 1


def test_statuses_and_redirects_are_returned_as_they_are(server):
    server.replies = [Reply(404), Reply(302, {"Location": "/b"})]
    for status in (404, 302):
        with answered(server.url, 5.0) as answer:
            assert (answer.status, answer.read()) == (status, b"")
    assert len(server.asked) == 2
    assert len(set(server.ports)) == 1


def test_a_silent_server_is_given_up_after_the_time_limit(server):
    read(server.url)
    server.replies = [Reply(latency=60.0)]
    with pytest.raises(TimeoutError), answered(server.url, 0.05):
        pass
    assert len(server.asked) == 2


def test_a_connection_that_was_idle_for_long_is_not_used(server, monkeypatch):
    read(server.url)
    now = connections.time.monotonic()
    monkeypatch.setattr(connections.time, "monotonic", lambda: now + connections._IDLE_SECONDS + 1)
    read(server.url)
    assert len(set(server.ports)) == 2


def test_only_so_many_idle_connections_are_kept(server, monkeypatch):
    monkeypatch.setattr(connections, "_MOST_IDLE", 2)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(answered(server.url, 5.0)).read()
    assert len(connections._idle(os.getpid())._kept) == 2


def test_a_forked_process_does_not_write_into_the_connections_of_its_parent(server):
    read(server.url)
    child = os.fork()
    if child == 0:
        os._exit(0 if read(server.url) == BODY else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read(server.url) == BODY
    assert [port == server.ports[0] for port in server.ports] == [True, False, True]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "http:///a", "ftp://host/a", "nonsense", "http://host/a b", "http://[::1/a",
        "http://two..dots/a",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_web_server_is_an_error(url):
    with pytest.raises(InvalidURL), answered(url, 5.0):
        pass


def test_a_path_that_is_not_ascii_is_an_error_and_a_name_and_password_are_not_sent(server):
    with pytest.raises(InvalidURL), answered(f"{server.url}/ü", 5.0):
        pass
    assert read(server.url.replace("//", "//user:secret@")) == BODY
    assert "Authorization" not in server.asked[-1].headers
    assert server.asked[-1].headers["Host"] == server.url.removeprefix("http://")


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("b/c.tar", "http://host/a/b/c.tar"),
        ("//other/d?e=%20#f", "http://other/d?e=%20#f"),
        ("/my Ã¼bung.tar", "http://host/my%20%C3%BCbung.tar"),  # UTF-8, as `http.client` decodes it
        (None, None),
    ],
)
def test_where_a_redirect_leads(location, url):
    headers = Message()
    if location is not None:
        headers["Location"] = location
    assert redirected("http://host/a/x", headers) == url


def test_a_redirect_to_what_is_no_url_is_an_error():
    headers = Message()
    headers["Location"] = "http://[::1/"
    with pytest.raises(InvalidURL):
        redirected("http://host/", headers)


def test_an_answer_that_is_not_of_http_is_an_error(server):
    server.replies = [Reply(raw=b"SSH-2.0-OpenSSH_9.6\r\n")]
    with pytest.raises(HTTPException), answered(server.url, 5.0):
        pass


def test_a_proxy_of_the_environment_gets_the_request(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.replies = [Reply(302, {"Location": "http://127.0.0.1:9/b"}), Reply(503, body=b"later")]
    with answered("http://elsewhere.invalid/a", 5.0, {"Range": "bytes=0-1"}) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "http://127.0.0.1:9/b")
    with answered("http://elsewhere.invalid/a", 5.0) as answer:
        assert (answer.status, answer.read()) == (503, b"later")
    assert [one.path for one in server.asked] == ["http://elsewhere.invalid/a"] * 2
    assert server.asked[0].headers["Range"] == "bytes=0-1"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert read(f"{server.url}/own") == BODY
    assert server.asked[-1].path == "/own"
