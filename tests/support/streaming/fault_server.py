"""A small S3 server over a folder that a test can make fail; the drills read from it.

It knows GET with and without ranges and `If-Match`, HEAD and ListObjectsV2, which is all that a reader needs. Binds to
loopback.
"""

import enum
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"


class Fault(enum.Enum):
    """Fault of the server in place of an answer."""

    STALL = enum.auto()
    RESET = enum.auto()
    ERROR_500 = enum.auto()
    ERROR_503 = enum.auto()
    ERROR_403 = enum.auto()
    HALF = enum.auto()
    FLIP = enum.auto()


_ANSWERS = {
    Fault.ERROR_500: (500, "InternalError"),
    Fault.ERROR_503: (503, "SlowDown"),
    Fault.ERROR_403: (403, "AccessDenied"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: method, path below the bucket, the range header if there was one, and whether it passes caches."""

    method: str
    path: str
    span: str | None
    is_past_caches: bool = False


@dataclass(slots=True)
class FaultServer:
    """The server's face to a test.

    Attributes:
        folder: what it serves.
        port: where.
        requests: what was asked so far.
        fault: decides for each request; None answers it.
        damage: what it makes of the bytes of an object: the request, the first byte's place in the object, the bytes.
        retry_after: what an answer of 503 says of when to come back.
        page_keys: entries of a listing in one answer.
        is_over: ends the stalled requests.
    """

    folder: Path
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    fault: Callable[[Request], Fault | None] = lambda request: None
    damage: Callable[[Request, int, bytes], bytes] = lambda request, start, blob: blob
    retry_after: str | None = None
    page_keys: int = 100_000
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def uri(self) -> str:
        """The bucket."""
        return f"s3://{BUCKET}"

    def environment(self) -> dict[str, str]:
        """Environment variables with which a client finds the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def fail_for(self, seconds: float, after: int = 0) -> None:
        """Answer 503 to all requests for so long, from the one that follows `after` others on."""
        self.requests.clear()
        ends: list[float] = []

        def decide(request: Request) -> Fault | None:
            if len(self.requests) <= after:
                return None
            if not ends:
                ends.append(time.monotonic() + seconds)
            return Fault.ERROR_503 if time.monotonic() < ends[0] else None

        self.fault = decide

    def fail_first(self, fault: Fault, times: int, suffix: str = ".tar") -> None:
        """Fail the first `times` GETs of paths with this suffix."""
        faults = iter([fault] * times)

        def decide(request: Request) -> Fault | None:
            if request.method != "GET" or not request.path.endswith(suffix):
                return None
            return next(faults, None)

        self.fault = decide


@contextmanager
def fault_server(folder: Path) -> Iterator[FaultServer]:
    """Serve a folder as `s3://bucket`."""
    face = FaultServer(folder)

    class Handler(_Handler):
        server_face = face

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    face.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield face
    finally:
        face.is_over.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_face: FaultServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's delayed acknowledgement

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Be quiet."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        request = Request(
            self.command, path, self.headers.get("Range"), self.headers.get("Cache-Control") == "no-cache"
        )
        face = self.server_face
        face.requests.append(request)
        fault = face.fault(request)
        if fault is Fault.STALL:
            face.is_over.wait()
            self.close_connection = True
        elif fault is Fault.RESET:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            self.close_connection = True
        elif fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            headers = {"Retry-After": face.retry_after} if status == 503 and face.retry_after else None
            self._send(status, f"<Error><Code>{code}</Code></Error>".encode(), headers, with_body=with_body)
        elif not path and with_body:
            self._send(200, self._listing(parse_qs(url.query)), with_body=True)
        else:
            self._object(request, fault, with_body=with_body)

    def _object(self, request: Request, fault: Fault | None, *, with_body: bool) -> None:
        file = self.server_face.folder / request.path
        if not file.is_file():
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body=with_body)
            return
        blob, start = file.read_bytes(), 0
        status, headers = (
            200,
            {"ETag": f'"{file.stat().st_mtime_ns:x}"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
        )
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>", with_body=with_body)
            return
        if (span := self.headers.get("Range")) is not None:
            first, _, last = span.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1 if last else len(blob), len(blob))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(blob)}"
            status, blob = 206, blob[start:stop]
        if fault is Fault.FLIP:
            middle = len(blob) // 2
            blob = blob[:middle] + bytes([blob[middle] ^ 0xFF]) + blob[middle + 1 :]
        if with_body:
            blob = self.server_face.damage(request, start, blob)
        self._send(status, blob, headers, with_body=with_body, keep=0.5 if fault is Fault.HALF else 1.0)

    def _send(
        self, status: int, blob: bytes, headers: dict[str, str] | None = None, *, with_body: bool, keep: float = 1.0
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(blob)))
        self.end_headers()
        if with_body:
            with suppress(ConnectionError):  # the drill killed who asked
                self.wfile.write(blob[: int(len(blob) * keep)])
        if keep < 1:
            self.close_connection = True

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        root = self.server_face.folder
        names = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
        found = [name for name in names if name.startswith(prefix) and name > after]
        page = found[: self.server_face.page_keys]
        is_cut = len(page) < len(found)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if is_cut else ""
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{(root / name).stat().st_mtime_ns:x}"</ETag>'
            f"<Size>{(root / name).stat().st_size}</Size></Contents>"
            for name in page
        )
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
            f"<MaxKeys>100000</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        ).encode()
