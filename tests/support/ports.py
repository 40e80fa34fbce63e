"""Ports for servers that need a fixed port number."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a loopback port that the system gives to no other process. A server that binds to its number gets it.

    Servers set SO_REUSEADDR. Two sockets with this option may be bound to one port if at most one of them listens.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
