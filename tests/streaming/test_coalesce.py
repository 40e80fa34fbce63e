from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.shards.coalesce import coalesce

_spans = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)).map(lambda p: (p[0], p[0] + p[1])), max_size=20)


@given(_spans, st.integers(0, 100))
def test_every_span_lies_in_exactly_one_request_and_requests_keep_their_distance(spans, gap):
    """Nothing is left out, nothing is asked for twice, and neighbours that could be merged were."""
    requests = coalesce(spans, max_gap_bytes=gap)
    members = sorted(member for request in requests for member in request.members)
    assert members == list(range(len(spans)))
    for request in requests:
        for member in request.members:
            assert request.start <= spans[member][0] <= spans[member][1] <= request.stop
    for left, right in pairwise(requests):
        assert right.start - left.stop > gap
