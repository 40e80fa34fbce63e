"""Ports for servers that must be told one."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port of loopback that the system gives to nobody else meanwhile; a server that asks for it by number gets it.

    Servers set SO_REUSEADDR, and two that do may be bound to one port while at most one listens there.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
