"""Turns the errors of files and of obstore into Headrace's, with the object, the reason and what to do next.

obstore's messages hold a request, a status and the store's XML or HTML. This module finds the reason in them, and
decides which failures may pass by themselves: those become `StoreUnavailableError`, which `requests` repeats.
"""

import contextlib
import re
from collections.abc import Iterator

from headrace.errors import AlreadyExistsError, NotFoundError, StorageError, StoreUnavailableError
from headrace.stores.own_host import NOWHERE

_CODE, _MESSAGE = re.compile(r"<Code>([^<]*)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_MARKUP = re.compile(r":?\s*<[?!a-zA-Z].*")
_NO_CREDENTIALS = re.compile(
    r"/latest/api/token|/latest/meta-data|/computeMetadata/|/metadata/identity|169\.254\.169\.254|Account must be"
)
_DENIED = re.compile(r"status code: 40[13]\b|lacked the necessary privileges|valid authentication credentials")
_SETTINGS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment (AWS_ENDPOINT_URL for a store that is not "
    "Amazon's, AWS_SKIP_SIGNATURE=true for a public bucket)",
    "gs": "GOOGLE_SERVICE_ACCOUNT in the environment to a service account's JSON file",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment",
    "abfs": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment",
}
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_STATUS = re.compile(r"status code: (\d{3})")
PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_PASSING_CODES = re.compile(r"<Code>(RequestTimeout|SlowDown|Throttl\w*|InternalError|ServiceUnavailable)</Code>")
_UNANSWERED = re.compile(r"HTTP error|request or response body error|error sending request")
_OTHER_RANGE = re.compile(r"Requested \d+\.\.\d+, got \d+\.\.\d+|CONTENT_RANGE header|Content-Range header not present")
_UNTRUSTED = re.compile(r"certificate|builder error|invalid URL")
_REDIRECTED = re.compile(rf"{re.escape(NOWHERE)}\b|error following redirect")
_ODD_NAME = re.compile(r"object with invalid path: (.*)")
_WHY = re.compile(r'(?:message|error): "([^"]+)"|kind: (Timeout)\b')


class OtherRangeError(StoreUnavailableError):
    """The answer has other bytes than were requested, which the store's client does not retry."""


@contextlib.contextmanager
def translated_errors(path: str, uri: str) -> Iterator[None]:
    """A block in which errors of files and of obstore become errors of Headrace that name the object."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(missing_fault(error, path, uri)) from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path}: already exists in {uri}") from error
    except OSError as error:
        raise StorageError(f"{place(path, uri)}: {error.strerror or error}") from error
    except Exception as error:
        if not type(error).__module__.startswith("obstore"):
            raise
        raise _fault(error, path, uri) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of obstore, for a range beyond the end; it is not an Exception
            raise
        raise StorageError(f"{path} in {uri}: {error}; is the object shorter than its index says?") from error


def _fault(error: Exception, path: str, uri: str) -> StorageError:
    """The error to raise for an error of obstore."""
    if type(error).__name__ == "AlreadyExistsError":  # obstore's own class, not a FileExistsError
        return AlreadyExistsError(f"{path}: already exists in {uri}")
    if _REDIRECTED.search(str(error)):
        return StorageError(
            f"{place(path, uri)}: the store redirects elsewhere, and requests with credentials stay on its host: "
            "set AWS_ENDPOINT_URL and AWS_REGION to where the bucket is"
        )
    if not may_pass(error):
        return StorageError(store_fault(error, path, uri))
    if _OTHER_RANGE.search(str(error)):
        return OtherRangeError(
            f"{store_fault(error, path, uri)}: the store, or a proxy or cache on the way, sends other bytes than were "
            "requested; if this does not pass, go around the proxy (NO_PROXY), or copy the data"
        )
    unavailable = StoreUnavailableError(store_fault(error, path, uri))
    unavailable.status = status_of(error)
    return unavailable


def place(path: str, uri: str) -> str:
    """Subject of a message: a path in a store, or the store itself."""
    return f"{path} in {uri}" if path else uri


def missing_fault(error: Exception, path: str, uri: str) -> str:
    """The message about an object that does not exist, or about its bucket if that does not exist."""
    if _is_of_no_bucket(error):
        return store_fault(error, path, uri)
    return f"{path}: not found in {uri}" if path else f"{uri}: not found"


def store_fault(error: Exception, path: str, uri: str) -> str:
    """One line: the object, the store's reason and, where the user can settle it, what to set."""
    text, where = str(error), place(path, uri)
    if odd := _ODD_NAME.search(text):
        return f"{where}: cannot be listed while an object has such a name: {odd[1]}; rename or delete that object"
    reasons = _reasons(text)
    line = _MARKUP.sub("", (text.splitlines() or [type(error).__name__])[0]).strip().rstrip(":")
    if _UNANSWERED.search(line) and (why := _why(text)):
        line = f"{line} ({why})"
    scheme = uri.partition("://")[0]
    if scheme not in _SETTINGS:
        return f"{where}: {': '.join([line, *reasons])}"
    reason = ": ".join(reasons) or line.rpartition(" - ")[2]
    if _NO_CREDENTIALS.search(text):
        return f"{where}: no credentials found ({reason}); set {_SETTINGS[scheme]}"
    if _is_of_no_bucket(error):
        endpoint = "; for a store that is not Amazon's, set AWS_ENDPOINT_URL" if scheme == "s3" else ""
        return f"{where}: no such bucket ({reason}); create it, or correct the URL{endpoint}"
    if _DENIED.search(text):
        return f"{where}: denied ({reason}); give these credentials the right to it, or set {_SETTINGS[scheme]}"
    return f"{where}: {': '.join([line, *reasons])}"


def status_of(error: BaseException) -> int | None:
    """HTTP status of the response that an error is about; None if there was no response."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later: the store is overloaded or restarts, or the connection failed.

    False for everything that the user has to correct: a name, a permission, a certificate.
    """
    text = str(error)
    if (status := status_of(error)) is not None:
        return status in PASSING_STATUSES or bool(_PASSING_CODES.search(text))
    if _OTHER_RANGE.search(text):  # a proxy that mixed up two answers
        return True
    return bool(_UNANSWERED.search(text)) and not _UNTRUSTED.search(text) and not _NO_CREDENTIALS.search(text)


def _is_of_no_bucket(error: Exception) -> bool:
    return any(code in str(error) for code in _NO_BUCKET)


def _why(text: str) -> str:
    """Why a connection failed, from the details that obstore prints below its message."""
    found = _WHY.search(text)
    return "" if found is None else found[1] or "timed out"


def _reasons(text: str) -> list[str]:
    """The code and the message in a store's XML, if it has them."""
    return [match[1] for pattern in (_CODE, _MESSAGE) if (match := pattern.search(text))]
