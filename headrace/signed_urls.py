"""Keeps secrets of URLs, their query (a signature) and their password, out of messages, states and cached names."""

import re
from typing import NamedTuple

from headrace.errors import ConfigError

_WEB = ("http://", "https://")
_PASSWORD = re.compile(r"(?P<scheme>\w[\w+.-]+)://[^/?#\s]*@(?P<host>[^/?#\s]*)")


class SignedName(NamedTuple):
    """The object that a signed URL names, and the query that gives the right to read it."""

    name: str
    query: str


def unsigned(name: str) -> str:
    """A name without the query of a web URL; every other name as it is.

    >>> unsigned("https://host/a.tar?X-Amz-Signature=1a2b"), unsigned("/data/a?b.tar")
    ('https://host/a.tar', '/data/a?b.tar')
    """
    return name.partition("?")[0] if is_signed(name) else name


def is_signed(name: str) -> bool:
    """Whether a name is a web URL with a query."""
    return name.startswith(_WEB) and "?" in name


def check_no_password(name: str) -> None:
    """Raise `ConfigError` for a URL with a user name or a password before its host."""
    if found := _PASSWORD.match(name):
        raise ConfigError(
            f"{found['scheme']}://…@{found['host']}: names and passwords in URLs are not sent: leave them out. Buckets "
            "take credentials from the environment, web servers signed URLs"
        )
