"""Which byte ranges to ask a store for, so that near ones travel together.

Pure: it plans and reads nothing. The executor is `headrace.streaming.shards.access`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""A half-open range of bytes."""


@dataclass(frozen=True, slots=True)
class Request:
    """One read that serves several wanted spans.

    Attributes:
        start: first byte.
        stop: one past the last byte.
        members: which of the wanted spans lie inside, by their place in the question.
    """

    start: int
    stop: int
    members: tuple[int, ...]


def coalesce(spans: Sequence[Span], *, max_gap_bytes: int) -> list[Request]:
    """The fewest requests in which no more than `max_gap_bytes` unwanted bytes lie between two neighbours.

    Requests come sorted and do not overlap; every span lies inside exactly one of them.

    >>> coalesce([(900, 950), (0, 100), (120, 200)], max_gap_bytes=64)
    [Request(start=0, stop=200, members=(1, 2)), Request(start=900, stop=950, members=(0,))]
    """
    requests: list[Request] = []
    for place in sorted(range(len(spans)), key=spans.__getitem__):
        start, stop = spans[place]
        last = requests[-1] if requests else None
        if last is not None and start - last.stop <= max_gap_bytes:
            requests[-1] = Request(last.start, max(stop, last.stop), (*last.members, place))
        else:
            requests.append(Request(start, stop, (place,)))
    return requests
