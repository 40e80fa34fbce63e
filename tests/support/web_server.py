"""A small HTTP/1.1 server for tests and benchmarks: one thread, any number of connections that stay open.

An answer may come after a latency, which holds no thread and costs no CPU time.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple


class Request(NamedTuple):
    """A request without a body, with its headers in title case, and the port of its connection."""

    method: str
    path: str
    headers: dict[str, str]
    port: int = 0


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: its status.
        headers: headers besides Content-Length, or in place of it.
        body: what follows, except after HEAD.
        latency: seconds before it is sent.
        is_last: whether the connection is closed after it.
        is_broken: whether the connection is closed without it.
        raw: bytes that are sent instead.
    """

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    latency: float = 0.0
    is_last: bool = False
    is_broken: bool = False
    raw: bytes = b""

    def encoded(self, method: str) -> bytes:
        """The bytes of the answer to a request of this method."""
        if self.is_broken or self.raw:
            return self.raw
        named = {"Content-Length": str(len(self.body)), **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        head = f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{lines}\r\n".encode("latin-1")
        return head if method == "HEAD" else head + self.body


class _Connection(asyncio.Protocol):
    def __init__(self, answer: Callable[[Request], Reply], opened: set[asyncio.Transport]) -> None:
        self._answer, self._opened, self._received = answer, opened, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._port = transport, transport.get_extra_info("peername")[1]
        self._opened.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = line.split(" ")
            headers = {name.title(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
            reply = self._answer(Request(method, path, headers, self._port))
            is_last = reply.is_last or reply.is_broken or headers.get("Connection", "").lower() == "close"
            send = partial(self._send, reply.encoded(method), is_last=is_last)
            if reply.latency:
                asyncio.get_running_loop().call_later(reply.latency, send)
            else:
                send()

    def _send(self, data: bytes, *, is_last: bool) -> None:
        self._transport.write(data)
        if is_last:
            self._transport.close()


@contextmanager
def web_servers(*answers: Callable[[Request], Reply]) -> Iterator[list[str]]:
    """Serve each function at an address of its own; all are called in one thread."""
    loop = asyncio.new_event_loop()
    opened: set[asyncio.Transport] = set()
    servers = [
        loop.run_until_complete(loop.create_server(partial(_Connection, answer, opened), "127.0.0.1", 0, backlog=512))
        for answer in answers
    ]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers]
    finally:
        loop.call_soon_threadsafe(_end, loop, servers, opened)
        thread.join()
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, servers: list[asyncio.Server], opened: set[asyncio.Transport]) -> None:
    for server in servers:
        server.close()
    for transport in tuple(opened):
        transport.abort()
    loop.call_soon(loop.call_soon, loop.stop)  # after the connections are closed
