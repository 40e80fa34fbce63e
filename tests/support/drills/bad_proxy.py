"""A proxy in front of an S3 server that forwards most requests and fails some."""

import enum
import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_CHECKED = (".tar", ".idx", ".shards")
"""Names of objects whose readers compare the bytes with a digest. No other answer is changed."""


class Fault(enum.Enum):
    """Fault of the proxy at a request."""

    SLOW_DOWN = "503"
    LOST = "reset before the store has it"
    LOST_ANSWER = "reset after the store has done it"
    HALF = "half of the answer"
    STALL = "held up"
    FLIP = "a flipped byte"


@dataclass
class BadProxy:
    """A running proxy.

    Attributes:
        server: host and port of the S3 server.
        port: port of the proxy.
        share: share of requests that fail.
        chance: random generator that decides which requests fail.
        came: number of requests by what the proxy did with them.
    """

    server: str
    port: int = 0
    share: float = 0.0
    chance: random.Random = field(default_factory=random.Random)
    came: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self) -> Fault | None:
        """Draw the fault of the next request; None to pass it on."""
        with self._lock:
            found = self.chance.choice(list(Fault)) if self.chance.random() < self.share else None
            self.came[found.value if found else "passed on"] += 1
            return found


@contextmanager
def bad_proxy(server: str) -> Iterator[BadProxy]:
    """Run a proxy on loopback in front of a server (`http://host:port`)."""
    face = BadProxy(urlsplit(server).netloc)

    class Handler(_Handler):
        proxy = face

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    face.port = listening.server_address[1]
    threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield face
    finally:
        listening.shutdown()
        listening.server_close()


class _Handler(BaseHTTPRequestHandler):
    proxy: BadProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's delayed acknowledgement

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.proxy.fault()
        if fault is Fault.LOST:
            self._reset()
        elif fault is Fault.SLOW_DOWN:
            self._send(503, [], b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>")
        else:
            if fault is Fault.STALL:
                time.sleep(0.7)
            status, headers, answer = self._asked(body)
            if fault is Fault.LOST_ANSWER:
                self._reset()
            elif fault is Fault.FLIP and self.command == "GET" and status < 300 and answer and self._is_checked():
                place = self.proxy.chance.randrange(len(answer))
                self._send(status, headers, answer[:place] + bytes([answer[place] ^ 1]) + answer[place + 1 :])
            elif fault is Fault.HALF and self.command == "GET" and len(answer) > 1:
                self._send(status, headers, answer, len(answer) // 2)
                self._reset()
            else:
                self._send(status, headers, answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of the base class

    def _is_checked(self) -> bool:
        return urlsplit(self.path).path.endswith(_CHECKED)

    def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.proxy.server, timeout=60)
        try:
            connection.request(self.command, self.path, body or None, dict(self.headers))
            response = connection.getresponse()
            dropped = {"content-length", "transfer-encoding", "connection"}
            headers = [(name, value) for name, value in response.getheaders() if name.lower() not in dropped]
            if self.command == "HEAD":
                headers.append(("Content-Length", response.getheader("Content-Length", "0")))
            return response.status, headers, response.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, until: int | None = None) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if not any(name == "Content-Length" for name, _ in headers):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[:until])
                self.wfile.flush()

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
