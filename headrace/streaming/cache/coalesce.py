"""Plans requests for byte ranges: near ranges share a request, and no request is too large.

These functions only plan. `headrace.streaming.shards.access` sends the requests.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""A half-open range of bytes."""

REQUEST_BYTES = 8 << 20
"""Largest size of one request; a time limit per request then does not depend on the size of a shard or sample."""


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """One read for several spans.

    Attributes:
        start: first byte.
        stop: one past the last byte.
        members: indices of the spans inside.
    """

    start: int
    stop: int
    members: tuple[int, ...]


def coalesce(spans: Sequence[Span], *, max_gap_bytes: int, max_bytes: int = REQUEST_BYTES) -> list[RangeRequest]:
    """Requests for spans; at most `max_gap_bytes` unwanted bytes are between two neighbours in a request.

    Requests come sorted and do not overlap; every span is inside exactly one of them. A request is larger than
    `max_bytes` only if a single span is, or overlapping spans are.

    >>> coalesce([(900, 950), (0, 100), (120, 200)], max_gap_bytes=64)
    [RangeRequest(start=0, stop=200, members=(1, 2)), RangeRequest(start=900, stop=950, members=(0,))]
    >>> coalesce([(0, 100), (120, 200)], max_gap_bytes=64, max_bytes=150)
    [RangeRequest(start=0, stop=100, members=(0,)), RangeRequest(start=120, stop=200, members=(1,))]
    """
    requests: list[RangeRequest] = []
    for found in _without_overlaps(spans):
        last = requests[-1] if requests else None
        if last is not None and found.start - last.stop <= max_gap_bytes and found.stop - last.start <= max_bytes:
            requests[-1] = RangeRequest(last.start, found.stop, last.members + found.members)
        else:
            requests.append(found)
    return requests


def pieces(start: int, stop: int, max_bytes: int = REQUEST_BYTES) -> Iterator[Span]:
    """Pieces of a range, each of at most `max_bytes`, in order; an empty range has none.

    >>> list(pieces(10, 35, max_bytes=10))
    [(10, 20), (20, 30), (30, 35)]
    """
    for first in range(start, stop, max_bytes):
        yield first, min(first + max_bytes, stop)


def without_gaps(spans: Sequence[Span], max_gap_bytes: int) -> list[Span]:
    """The spans, sorted, with gaps of at most `max_gap_bytes` closed, however large they become.

    >>> without_gaps([(900, 950), (0, 100), (120, 200)], 64)
    [(0, 200), (900, 950)]
    """
    return [(one.start, one.stop) for one in coalesce(spans, max_gap_bytes=max_gap_bytes, max_bytes=sys.maxsize)]


def _without_overlaps(spans: Sequence[Span]) -> list[RangeRequest]:
    """The spans, sorted; overlapping spans are merged, so that no byte is requested twice."""
    found: list[RangeRequest] = []
    for place in sorted(range(len(spans)), key=spans.__getitem__):
        start, stop = spans[place]
        if found and start < found[-1].stop:
            last = found.pop()
            found.append(RangeRequest(last.start, max(stop, last.stop), (*last.members, place)))
        else:
            found.append(RangeRequest(start, stop, (place,)))
    return found
