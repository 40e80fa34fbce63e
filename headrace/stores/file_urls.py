"""Reads `file://` URLs, which name local folders and files."""

from urllib.parse import unquote

from headrace.errors import ConfigError

_START = "file:"
_HOSTS = ("", "localhost")


def is_file_url(name: str) -> bool:
    """Whether a name is a `file:` URL; as of every URL, the case of the scheme does not matter."""
    return name[: len(_START)].lower() == _START


def path_of_file_url(url: str) -> str:
    """The local path that a `file:` URL names.

    `%20` and the like are decoded. `?` and `#` are part of the path: a local file has neither query nor fragment.

    >>> path_of_file_url("file:///data/my%20birds#2")
    '/data/my birds#2'

    Raises:
        ConfigError: the URL names another host, has a relative path after `file://`, or contains a NUL character.
    """
    rest = url[len(_START) :]
    host, slash, path = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest)
    if host not in _HOSTS:
        raise ConfigError(f"{url}: a file URL has three slashes before an absolute path: file:///{host}{slash}{path}")
    found = unquote(f"{slash}{path}")
    if "\0" in found:
        raise ConfigError(f"{url}: %00 is the NUL character, which no file name contains: leave it out")
    return found
