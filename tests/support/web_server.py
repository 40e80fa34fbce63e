"""A small HTTP/1.1 server for tests and benchmarks: one thread, any number of connections that stay open.

An answer may come after a latency, which holds no thread and costs no CPU time.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import NamedTuple


class Request(NamedTuple):
    """A request without a body; names of headers are in title case."""

    method: str
    path: str
    headers: dict[str, str]


class Reply(NamedTuple):
    """An answer, the seconds before it is sent, and whether the connection is closed without one, or after it."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    latency: float = 0.0
    is_broken: bool = False
    is_last: bool = False


class _Connection(asyncio.Protocol):
    def __init__(self, answer: Callable[[Request], Reply], opened: set[asyncio.Transport]) -> None:
        self._answer, self._opened, self._received = answer, opened, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opened.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the protocol
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = line.split(" ")
            headers = {name.title(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
            reply = self._answer(Request(method, path, headers))
            is_last = reply.is_last or headers.get("Connection", "").lower() == "close"
            sent = b"" if reply.is_broken else _encoded(reply, has_body=method != "HEAD")
            delay = partial(self._send, sent, is_last=is_last or reply.is_broken)
            if reply.latency:
                asyncio.get_running_loop().call_later(reply.latency, delay)
            else:
                delay()

    def _send(self, data: bytes, *, is_last: bool) -> None:
        self._transport.write(data)
        if is_last:
            self._transport.close()


def _encoded(reply: Reply, *, has_body: bool) -> bytes:
    named = {"Content-Length": str(len(reply.body))} | reply.headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    head = f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n{lines}\r\n"
    return head.encode("latin-1") + (reply.body if has_body else b"")


class Served(NamedTuple):
    """The address of a server, and its open connections."""

    url: str
    opened: set[asyncio.Transport]


@contextmanager
def web_servers(*answers: Callable[[Request], Reply]) -> Iterator[list[Served]]:
    """Serve each function at an address of its own; all are called in one thread."""
    loop = asyncio.new_event_loop()
    servers, served = [], []
    for answer in answers:
        opened: set[asyncio.Transport] = set()
        made = loop.create_server(partial(_Connection, answer, opened), "127.0.0.1", 0, backlog=512)
        servers.append(loop.run_until_complete(made))
        served.append(Served(f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}", opened))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(_end, loop, servers, served)
        thread.join()
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, servers: list[asyncio.Server], served: list[Served]) -> None:
    for server in servers:
        server.close()
    for transport in [one for server in served for one in server.opened]:
        transport.abort()
    loop.call_soon(loop.call_soon, loop.stop)  # after the connections are closed
