"""What a store's client says of a failure, in words that name the object and the way out.

Owns reading its messages: a request, a status, and the store's own XML or HTML behind them. It knows no store's types.
"""

import re

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


def place(path: str, uri: str) -> str:
    """The object of a message: a path in a store, or the store itself."""
    return f"{path} in {uri}" if path else uri


def missing_fault(error: Exception, path: str, uri: str) -> str:
    """What to say of an object that is not there; where the bucket itself is missing, that."""
    if _is_of_no_bucket(error):
        return store_fault(error, path, uri)
    return f"{path}: not found in {uri}" if path else f"{uri}: not found"


def store_fault(error: Exception, path: str, uri: str) -> str:
    """One line: the object, what the store said, and for what a user can settle what to set."""
    text, where = str(error), place(path, uri)
    line, told = _MARKUP.sub("", (text.splitlines() or [type(error).__name__])[0]).strip().rstrip(":"), _told(text)
    scheme = uri.partition("://")[0]
    if scheme not in _SETTINGS:
        return f"{where}: {': '.join([line, *told])}"
    reason = ": ".join(told) or line.rpartition(" - ")[2]
    if _NO_CREDENTIALS.search(text):
        return f"{where}: no credentials found ({reason}); set {_SETTINGS[scheme]}"
    if _is_of_no_bucket(error):
        endpoint = "; a store that is not Amazon's is named by AWS_ENDPOINT_URL" if scheme == "s3" else ""
        return f"{where}: no such bucket ({reason}); create it, or correct the URL{endpoint}"
    if _DENIED.search(text):
        return f"{where}: denied ({reason}); give these credentials the right to it, or set {_SETTINGS[scheme]}"
    return f"{where}: {': '.join([line, *told])}"


def _is_of_no_bucket(error: Exception) -> bool:
    return any(code in str(error) for code in _NO_BUCKET)


def _told(text: str) -> list[str]:
    """The code and the message in a store's XML, where they are."""
    return [match[1] for pattern in (_CODE, _MESSAGE) if (match := pattern.search(text))]
