"""Reads `file://` URLs, which name local folders and files."""

from urllib.parse import unquote

from headrace.errors import ConfigError

_START = "file:"
_HOSTS = ("", "localhost")


def is_file_url(name: str) -> bool:
    """Whether a name is a `file:` URL."""
    return name.startswith(_START)


def path_of_file_url(url: str) -> str:
    """The local path that a `file:` URL names.

    `%20` and the like are decoded. `?` and `#` are part of the path: a local file has neither query nor fragment.

    >>> path_of_file_url("file:///data/my%20birds#2")
    '/data/my birds#2'

    Raises:
        ConfigError: the URL names another host, or `file://` is followed by a relative path.
    """
    rest = url.removeprefix(_START)
    host, slash, path = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest)
    if host not in _HOSTS:
        raise ConfigError(f"{url}: a file URL has three slashes before an absolute path: file:///{host}{slash}{path}")
    return unquote(f"{slash}{path}")
