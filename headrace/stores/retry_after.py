"""Asks an overloaded store how long to wait: the header Retry-After (RFC 9110, section 10.2.3).

obstore's errors have the status and the body of a response but not its headers, and obstore's own retries ignore this
header. So one byte of the object is requested once more, with Python's HTTP client.
"""

import contextlib
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException

STATUSES = (429, 503)
"""HTTP statuses of a store that asks clients to retry later."""

_LONGEST_ASKING_SECONDS = 5.0


def seconds_of(header: str, now: datetime) -> float | None:
    """Seconds to wait; None for a header that is not valid.

    >>> from datetime import datetime, timezone
    >>> now = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> seconds_of("7", now), seconds_of("Thu, 01 Jan 2026 12:01:00 GMT", now), seconds_of("soon", now)
    (7.0, 60.0, None)
    """
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    with contextlib.suppress(ValueError, TypeError):  # TypeError: a date without a time zone
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    return None


def asked_by(status: int, headers: Message) -> float | None:
    """Seconds that a response asks to wait; None if it does not say."""
    header = headers.get("Retry-After") if status in STATUSES else None
    return None if header is None else seconds_of(header, datetime.now(UTC))


def asked_pause(url: str) -> float | None:
    """Seconds that the server of a URL asks to wait; None if it does not say, or its response is not HTTP.

    Args:
        url: percent-encoded. It may be signed, so no message contains it.
    """
    if not url.startswith(("http://", "https://")):
        return None
    request = urllib.request.Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310 - HTTP alone, see above
    try:
        with urllib.request.urlopen(request, timeout=_LONGEST_ASKING_SECONDS):  # noqa: S310
            return None  # the store has recovered
    except urllib.error.HTTPError as error:
        with error:
            return asked_by(error.code, error.headers)
    except (OSError, ValueError, HTTPException):  # the caller reports the failure of the original request
        return None
