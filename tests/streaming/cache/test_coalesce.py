"""Which ranges travel together."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.streaming.cache.coalesce import coalesce, pieces

_spans = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)).map(lambda p: (p[0], p[0] + p[1])), max_size=20)


@given(_spans, st.integers(0, 100), st.integers(1, 200))
def test_every_span_is_in_exactly_one_request_and_neighbours_that_could_be_merged_were(spans, gap, most):
    """Nothing is left out, and nothing is asked for twice."""
    requests = coalesce(spans, max_gap_bytes=gap, max_bytes=most)
    members = sorted(member for request in requests for member in request.members)
    assert members == list(range(len(spans)))
    for request in requests:
        for member in request.members:
            assert request.start <= spans[member][0] <= spans[member][1] <= request.stop
    for left, right in pairwise(requests):
        assert left.stop <= right.start
        first = min(spans[member][1] for member in right.members)  # at least one of its spans did not fit
        assert right.start - left.stop > gap or first - left.start > most or right.stop - left.start > most


@example([(0, 0), (1, 2), (1, 3)], 1, 2)  # the last two overlap, and fit without the first
@given(_spans, st.integers(0, 100), st.integers(1, 200))
def test_a_request_is_no_larger_than_the_most_or_than_spans_that_overlap(spans, gap, most):
    for request in coalesce(spans, max_gap_bytes=gap, max_bytes=most):
        if request.stop - request.start > most:
            alone = coalesce([spans[member] for member in request.members], max_gap_bytes=-1)
            assert any(part.stop - part.start > most for part in alone)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 100))
def test_pieces_are_the_whole_range_in_order_and_bounded(start, length, most):
    found = list(pieces(start, start + length, most))
    assert [byte for piece in found for byte in range(*piece)] == list(range(start, start + length))
    assert all(0 < last - first <= most for first, last in found)
