"""An S3 server on loopback that counts requests: moto behind a counter."""

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs


@dataclass
class Requests:
    """Requests that a server received.

    Attributes:
        kinds: number of requests by kind: `LIST`; `GET` and `HEAD`, with ` tar` or ` idx` for these files; and other
            methods.
        bytes_of_tars: bytes of tars that were sent to clients.
    """

    kinds: Counter = field(default_factory=Counter)
    bytes_of_tars: int = 0

    @property
    def total(self) -> int:
        return self.kinds.total()


class CountingApp:
    """A WSGI application that counts the requests to another one."""

    def __init__(self, app):
        self.app, self.requests, self._lock = app, Requests(), threading.Lock()

    def __call__(self, environment, start_response):
        path, query = environment["PATH_INFO"], parse_qs(environment.get("QUERY_STRING", ""), keep_blank_values=True)
        answer = b"".join(self.app(environment, start_response))
        method = environment["REQUEST_METHOD"]
        with self._lock:
            self.requests.kinds[_kind(method, path, query)] += 1
            if method == "GET" and path.endswith(".tar"):
                self.requests.bytes_of_tars += len(answer)
        return [answer]

    @contextmanager
    def counted(self):
        """Yields the requests within the block."""
        with self._lock:
            self.requests = Requests()
        yield self.requests


def _kind(method, path, query):
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "LIST"
    suffix = path.rpartition(".")[2]
    return f"{method} {suffix}" if method in {"GET", "HEAD"} and suffix in {"tar", "idx"} else method


@contextmanager
def counting_server():
    """A server in this process. Yields its URL and the application."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    app = CountingApp(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, name="counting-s3")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", app
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
