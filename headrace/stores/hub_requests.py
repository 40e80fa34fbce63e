"""Names on the Hugging Face Hub (`hf://…`), and requests to it with the user's token.

The token is read for each request, so that no object holds it, and is sent to the Hub's own host alone. A redirect to
another host, which the Hub gives for the bytes of a file, is returned to the caller.
"""

import os
import re
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from headrace.errors import ConfigError, NotFoundError, StorageError, StoreUnavailableError
from headrace.stores.client_errors import PASSING_STATUSES
from headrace.stores.connections import answered, redirected
from headrace.stores.retry_after import asked_by

_PUBLIC = "https://huggingface.co"
_NAME = re.compile(
    r"hf://(datasets/|spaces/|buckets/|)((?!(?:datasets|spaces|buckets|models)/)[\w.-]+/[\w.-]+)"
    r"(?:@(refs/(?:convert|pr)/\w+|[^/@*?\[\]{}]+))?(?:/(.*))?",
    re.DOTALL,
)
_TOKEN = re.compile(r"[!-~]+")
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_OF_REPOSITORY = ("RepoNotFound", "RevisionNotFound", "GatedRepo")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository or a bucket: the first part of its URLs (empty for models), `OWNER/NAME`, and its revision.

    The revision is a branch, tag or commit; empty for a bucket, which has none.
    """

    kind: str
    name: str
    revision: str

    @property
    def uri(self) -> str:
        """The repository as a user writes it."""
        return f"hf://{self.kind}{self.name}" + (f"@{quote(self.revision, safe='')}" if self.revision else "")

    @property
    def is_bucket(self) -> bool:
        """Whether it is a bucket."""
        return self.kind == "buckets/"

    def url_of_file(self, path: str) -> str:
        """The URL at which the Hub says where a file is."""
        below = quote(path, safe="") if self.is_bucket else f"{quote(self.revision, safe='')}/{quote(path)}"
        return f"{endpoint()}/{self.kind}{self.name}/resolve/{below}"

    def url_of_api(self, what: str, *parts: str) -> str:
        """A URL of the Hub's API: `tree` or `revision`, and what it is about."""
        below = "".join(f"/{quote(part, safe='')}" for part in parts if part)
        return f"{endpoint()}/api/{self.kind or 'models/'}{self.name}/{what}{below}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the Hub: the URL of the content, on another host after a redirect, its headers and the content."""

    url: str
    headers: Message
    content: bytes = b""


def parsed_name(url: str) -> tuple[Repository, str]:
    """The repository of a `hf://` URL, and the path in it.

    >>> parsed_name("hf://datasets/birds/songs@v1/train/0.tar")
    (Repository(kind='datasets/', name='birds/songs', revision='v1'), 'train/0.tar')

    Raises:
        ConfigError: the URL names no repository by its owner and name.
    """
    found = _NAME.fullmatch(url)
    if found is None or (found[1] == "buckets/" and found[3]):
        raise ConfigError(
            f"{url}: expected hf://datasets/OWNER/NAME/PATH, hf://OWNER/NAME/PATH (a model), "
            "hf://spaces/OWNER/NAME/PATH or hf://buckets/OWNER/NAME/PATH, with @REVISION behind NAME except for "
            "buckets; a name without an owner is an old alias: its page on the Hub has the owner"
        )
    revision = "" if found[1] == "buckets/" else unquote(found[3] or "main")
    return Repository(found[1], found[2], revision), found[4] or ""


def endpoint() -> str:
    """The address of the Hub: HF_ENDPOINT, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or _PUBLIC).rstrip("/")


def token_for(url: str) -> str | None:
    """The user's token for a URL of the Hub's own host; None without a token, and for every other host.

    Raises:
        ConfigError: it has characters that no token has; the message does not show it.
    """
    token = _token() if _is_own(url) else ""
    if token and not _TOKEN.fullmatch(token):
        raise ConfigError("the token of the Hub (HF_TOKEN, or its file) has spaces or control characters: set it again")
    return token or None


def asked(url: str, what: str, timeout_seconds: float, method: str = "GET") -> Answer:
    """The Hub's answer; redirects on its own host are followed, one to another host is returned.

    Args:
        url: a URL of the Hub.
        what: the name of what is asked for, for messages.
        timeout_seconds: how long the connection may be silent.
        method: GET or HEAD.

    Raises:
        NotFoundError: there is no such file.
        StoreUnavailableError: the connection failed, or the Hub asks to try later.
        StorageError: there is no such repository or revision, or the Hub denies it.
    """
    for _ in range(_MOST_REDIRECTS):
        answer = _asked_once(url, what, timeout_seconds, method)
        try:
            target = redirected(url, answer.headers)
        except InvalidURL:  # its text may have a signature
            raise StorageError(f"{what}: the Hub redirects to what is no URL") from None
        if target is None:
            return answer
        url = target
        if not _is_own(url):
            return Answer(url, answer.headers)
    raise StorageError(f"{what}: the Hub redirects without end")


def _is_own(url: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(endpoint())[:2]


def _asked_once(url: str, what: str, timeout_seconds: float, method: str) -> Answer:
    token = token_for(url)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with answered(url, timeout_seconds, headers, method) as answer:
            content = answer.read()
            if answer.status < _REDIRECTS[0] or (answer.status in _REDIRECTS and "Location" in answer.headers):
                return Answer(url, answer.headers, content)
            raise _refusal(what, answer)
    except InvalidURL as error:
        raise ConfigError(f"HF_ENDPOINT {endpoint()}: not the address of a server: {error}") from error
    except StorageError:
        raise
    except (OSError, HTTPException) as error:
        raise StoreUnavailableError(f"{what}: {str(error) or type(error).__name__}") from error


def _refusal(what: str, answer: HTTPResponse) -> StorageError:
    status = answer.status
    said = f"{what}: the Hub answers {status} {answer.headers.get('X-Error-Message') or answer.reason}"
    if status in {401, 403} or answer.headers.get("X-Error-Code") in _OF_REPOSITORY:
        return StorageError(
            f"{said}: check the name and the revision; for a private or gated repository, accept its conditions on its "
            "page and set HF_TOKEN to a token that may read it"
        )
    if status in {404, 410}:
        return NotFoundError(f"{what}: not found")
    if status not in PASSING_STATUSES:
        return StorageError(said)
    unavailable = StoreUnavailableError(said)
    unavailable.status, unavailable.asked_seconds = status, asked_by(status, answer.headers)
    return unavailable


def _token() -> str:
    """HF_TOKEN, or the content of the token's file; empty without either."""
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    file = os.environ.get("HF_TOKEN_PATH") or f"{home}/token"
    try:
        return os.environ.get("HF_TOKEN", "").strip() or Path(file).expanduser().read_text("utf-8").strip()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: no home folder
        return ""
