"""Connections to web servers that stay open for the next request.

Most requests are for a few bytes. To connect takes longer than such a request: a round trip, two more with TLS, and
most of the CPU time on both sides. So a connection whose answer was read to its end is kept for the next request to the
same host, by any thread of the process. Statuses, redirects and retries are up to the callers.
"""

import atexit
import contextlib
import functools
import os
import select
import ssl
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from string import punctuation
from urllib.parse import quote, urljoin, urlsplit

_IDLE_SECONDS = 20.0  # routers forget idle connections without a word
_MOST_IDLE = 128
_AGENT = {"User-Agent": "headrace"}
_OK = 200

_Place = tuple[str, str]  # scheme and host with its port


@contextlib.contextmanager
def answered(
    url: str, timeout_seconds: float, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> Iterator[HTTPResponse]:
    """The answer to a request, whatever its status; redirects are not followed.

    Args:
        url: an address of http or https, percent-encoded.
        timeout_seconds: how long the connection may be silent.
        headers: headers of the request.
        method: GET or HEAD.

    Raises:
        InvalidURL: it is not the URL of a web server. The message may have all of it.
        OSError: the connection failed.
        HTTPException: the server does not answer by HTTP.
    """
    place, target = _parsed(url)
    sent, idle = {**_AGENT, **(headers or {})}, _idle(os.getpid())

    def ask(connection: HTTPConnection) -> HTTPResponse:
        connection.timeout = timeout_seconds
        if connection.sock is not None and connection.sock.gettimeout() != timeout_seconds:
            connection.sock.settimeout(timeout_seconds)
        try:
            connection.request(method, target, headers=sent)
            return _final(connection.getresponse())
        except BaseException as error:
            connection.close()
            if isinstance(error, UnicodeError):  # of a host or a path that is not ASCII
                raise InvalidURL(f"{url}: not an address of http or https") from error
            raise

    found = idle.asked(place, ask)
    if found is None and _is_proxied(*place):
        request = urllib.request.Request(url, headers=sent, method=method)  # noqa: S310 - HTTP alone, see `_parsed`
        with _through_proxy().open(request, timeout=timeout_seconds) as proxied:
            yield _final(proxied)
        return
    connection, answer = found or (new := _connection(*place), ask(new))
    try:
        yield answer
    except HTTPException:  # the end of the answer is unknown
        connection.close()
        raise
    finally:
        if answer.isclosed() and connection.sock is not None:
            idle.keep(place, connection)
        else:
            answer.close()
            connection.close()


def redirected(url: str, headers: Message) -> str | None:
    """The URL that an answer to a request for `url` redirects to; None if it has none.

    Spaces and bytes beyond ASCII, which some servers send, are percent-encoded.

    Raises:
        InvalidURL: it is not a URL. The message may have all of it.
    """
    target = headers.get("Location")
    if target is None:
        return None
    try:
        return urljoin(url, quote(target, safe=punctuation, encoding="latin-1"))  # as `http.client` decodes it
    except ValueError as error:
        raise InvalidURL(f"{target}: {error}") from error


class _Idle:
    """Open connections that no request uses; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[float, _Place, HTTPConnection]] = deque()  # the oldest first

    def asked(
        self, place: _Place, ask: Callable[[HTTPConnection], HTTPResponse]
    ) -> tuple[HTTPConnection, HTTPResponse] | None:
        """The answer by a connection to this place; None if none is open.

        A connection that the server has closed in the meantime says nothing about the request (RFC 9112, section
        9.3.1), which goes over the next one.
        """
        while (kept := self._taken(place)) is not None:
            if _is_silent(kept):  # without the lock: a system call may be long in coming back to Python
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    return kept, ask(kept)
            else:
                kept.close()
        return None

    def keep(self, place: _Place, connection: HTTPConnection) -> None:
        """Keep a connection whose answer was read."""
        with self._lock:
            self._kept.append((time.monotonic(), place, connection))
            self._drop(_MOST_IDLE)

    def close(self) -> None:
        """Close all connections, unless a thread is looking for one: in a forked process it would never end."""
        if self._lock.acquire(blocking=False):
            self._drop(0)
            self._lock.release()

    def _taken(self, place: _Place) -> HTTPConnection | None:
        """The connection to this place that was used last."""
        with self._lock:
            self._drop(_MOST_IDLE)
            for number in range(len(self._kept) - 1, -1, -1):
                _, there, connection = self._kept[number]
                if there == place:
                    del self._kept[number]
                    return connection
        return None

    def _drop(self, most: int) -> None:
        oldest = time.monotonic() - _IDLE_SECONDS
        while self._kept and (len(self._kept) > most or self._kept[0][0] < oldest):
            self._kept.popleft()[2].close()


@functools.cache
def _idle(_pid: int) -> _Idle:
    """The connections of a process: a forked one must not write into those of its parent."""
    idle = _Idle()
    atexit.register(idle.close)
    return idle


def _is_silent(connection: HTTPConnection) -> bool:
    """Whether the server has sent nothing since its answer; what it sends is its end, or the answer to no request."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _final(answer: HTTPResponse) -> HTTPResponse:
    """The answer itself. Raises `HTTPException` for an interim one (1xx), which Python's client takes for the last."""
    if answer.status < _OK:
        raise HTTPException(f"the server answers {answer.status} {answer.reason} before its answer")
    return answer


def _parsed(url: str) -> tuple[_Place, str]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidURL(f"{url}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidURL(f"{url}: not an address of http or https")
    target = url.partition("//")[2][len(parts.netloc) :].partition("#")[0]
    host = parts.netloc.rpartition("@")[2]  # a name and a password are not sent, as by obstore
    return (parts.scheme, host), target if target.startswith("/") else f"/{target}"


def _connection(scheme: str, host: str) -> HTTPConnection:
    return HTTPSConnection(host, context=_tls()) if scheme == "https" else HTTPConnection(host)


@functools.cache
def _tls() -> ssl.SSLContext:
    """The certificates of the machine, which take 30 ms of CPU time to load."""
    return ssl.create_default_context()


def _is_proxied(scheme: str, host: str) -> bool:
    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


@functools.cache
def _through_proxy() -> urllib.request.OpenerDirector:
    """Sends requests by the proxies of the environment; answers of every status are returned."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    return opener
