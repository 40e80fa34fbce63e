"""Splits URLs with a query, as signed ones, so that the signature is in no message, state or name of a cached file."""

from typing import NamedTuple

_WEB = ("http://", "https://")


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
