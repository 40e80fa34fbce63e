"""Reads objects of web servers whose answers obstore does not accept, with Python's HTTP client.

Some servers do not answer HEAD, send no length (chunked answers), or leave the length out of `Content-Range`. All of
that is valid HTTP. So are signed URLs, which are for GET alone. Requests carry no credentials, except a signature in
the URL, which is in no message, or a token that the caller passes.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPResponse, InvalidURL

from headrace.errors import NotFoundError, StorageError, StoreUnavailableError
from headrace.signed_urls import is_signed, unsigned
from headrace.stores.client_errors import PASSING_STATUSES
from headrace.stores.connections import answered, redirected
from headrace.stores.retry_after import asked_by

_ODD = re.compile(
    r"Content-Length Header missing|CONTENT_RANGE header: \"bytes \d+-\d+/\*\""
    r"|performing HEAD .*status code: (405|501)|Range request not supported",
    re.DOTALL,
)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_PIECE_BYTES = 1 << 20
_PARTIAL = 206
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10


class NoRangesError(StorageError):
    """The server answers a request for a range of bytes with the whole object."""


def is_odd(error: Exception, url: str) -> bool:
    """Whether an error of obstore is about an answer that `Web` may be able to read."""
    return url.startswith(("http://", "https://")) and _ODD.search(str(error)) is not None


def read_whole(url: str, timeout_seconds: float, token: str | None = None) -> bytes:
    """All bytes of an object. Raises as `opened`."""
    with opened(url, timeout_seconds, token=token) as answer:
        return answer.read()


def read_range(url: str, start: int, stop: int, timeout_seconds: float, token: str | None = None) -> bytes:
    """Bytes [start, stop) of an object, fewer if it is shorter.

    Raises:
        NoRangesError: the server does not answer requests for ranges.
        StoreUnavailableError: as `opened`, or the answer has other bytes.
    """
    with opened(url, timeout_seconds, f"bytes={start}-{stop - 1}", token) as answer:
        if answer.status != _PARTIAL:
            raise NoRangesError(
                f"{unsigned(url)}: this web server does not answer requests for byte ranges, which "
                "headrace.StreamingDataset and headrace verify need: serve the shards with one that does (nginx, "
                "Apache, Caddy, rclone serve http), or copy them to a local folder or a bucket; "
                "headrace.webdataset_loader needs no ranges"
            )
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start or int(found[2]) >= stop:
            raise StoreUnavailableError(
                f"{unsigned(url)}: bytes {start}-{stop - 1} requested, {answer.headers.get('Content-Range')} received"
            )
        return answer.read()


def size_and_tag(url: str, timeout_seconds: float) -> tuple[int, str | None]:
    """Size of an object in bytes, and its ETag or the time of its last change; None if the server sends neither.

    If the server does not send the size, the object is downloaded. Raises as `opened`.
    """
    with opened(url, timeout_seconds, "bytes=0-0") as answer:
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if answer.status == _PARTIAL and found is not None and found[3] != "*":
            return int(found[3]), tag
        if answer.status != _PARTIAL:
            length = answer.headers.get("Content-Length")
            return int(length) if length else sum(map(len, iter(lambda: answer.read(_PIECE_BYTES), b""))), tag
    return len(read_whole(url, timeout_seconds)), tag


@contextmanager
def opened(url: str, timeout_seconds: float, span: str = "", token: str | None = None) -> Iterator[HTTPResponse]:
    """The answer to a GET request.

    Args:
        url: the object.
        timeout_seconds: how long the connection may be silent.
        span: value of the header Range; empty for the whole object.
        token: sent to the host of the URL, and to no other after a redirect.

    Raises:
        NotFoundError: there is no such object.
        StoreUnavailableError: the connection failed, or the server asks to try later.
        StorageError: the server refuses.
    """
    try:
        with _followed(url, timeout_seconds, {"Range": span} if span else {}, token) as answer:
            if answer.status >= _REDIRECTS[0]:
                raise _refusal(url, answer)
            yield answer
    except StorageError:
        raise
    except InvalidURL:  # its text has the whole URL
        raise StorageError(f"{unsigned(url)}: not a valid URL; percent-encode what is special in it") from None
    except (OSError, HTTPException) as error:
        raise StoreUnavailableError(f"{unsigned(url)}: {str(error) or type(error).__name__}") from error


@contextmanager
def _followed(url: str, timeout_seconds: float, headers: dict[str, str], token: str | None) -> Iterator[HTTPResponse]:
    """The answer to a GET request, or to the last one of its redirects."""
    own = {} if token is None else {"Authorization": f"Bearer {token}"}
    with ExitStack() as stack:
        answer = stack.enter_context(answered(url, timeout_seconds, headers | own))
        for _ in range(_MOST_REDIRECTS):
            target = redirected(url, answer.headers) if answer.status in _REDIRECTS else None
            if target is None:
                break
            answer.read()
            stack.close()
            url = target
            answer = stack.enter_context(answered(url, timeout_seconds, headers))
        yield answer


def _refusal(url: str, answer: HTTPResponse) -> StorageError:
    where, status = unsigned(url), answer.status
    if status in {404, 410}:
        return NotFoundError(f"{where}: not found")
    if status not in PASSING_STATUSES:
        expired = "; if its signature has expired, pass a new URL" if is_signed(url) else ""
        return StorageError(f"{where}: the server answers {status} {answer.reason}{expired}")
    unavailable = StoreUnavailableError(f"{where}: the server answers {status} {answer.reason}")
    unavailable.status = status
    unavailable.asked_seconds = asked_by(status, answer.headers)
    return unavailable
