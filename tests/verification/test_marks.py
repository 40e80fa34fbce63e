"""The marks of verification: arcs of a circle on which every shard has a place."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.stores.storage import open_storage
from headrace.verification.marks import CIRCLE, MARKS_FILE, Arc, Marks, place_of, read_marks, write_marks

NAMES = [f"train_0000_{number:06d}-0123456789ab.tar" for number in range(50)]
STEPS = st.lists(st.tuples(st.fractions(Fraction(1, 50), 1), st.floats(0, 1)), max_size=12)


def marks_after(steps) -> Marks:
    """The marks after verifications of a share each, of which a part was done."""
    marks = Marks(next=CIRCLE // 3)
    for seconds, (share, done) in enumerate(steps):
        arc = marks.arc(share)
        marks = marks.through(arc, int(arc.length * done), float(seconds))
    return marks


@pytest.mark.medium
@settings(max_examples=25)
@given(STEPS)
def test_parts_are_disjoint_in_order_and_within_the_circle(steps):
    edges = [edge for part in marks_after(steps).verified for edge in (part.start, part.stop)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= CIRCLE for edge in edges)


@pytest.mark.medium
@settings(max_examples=25)
@given(STEPS)
def test_a_shard_was_verified_by_the_last_step_that_passed_its_place(steps):
    marks, expected = Marks(next=CIRCLE // 3), {}
    for seconds, (share, done) in enumerate(steps):
        arc = marks.arc(share)
        length = int(arc.length * done)
        marks = marks.through(arc, length, float(seconds))
        expected |= {name: float(seconds) for name in NAMES if place_of(name) in Arc(arc.start, length)}
    assert {name: marks.verified_seconds(name) for name in NAMES} == {name: expected.get(name) for name in NAMES}


@settings(max_examples=25)
@given(st.integers(1, 30), st.integers(0, CIRCLE - 1))
def test_as_many_parts_as_the_share_says_are_all_shards(count, start):
    marks, seen = Marks(next=start), []
    for day in range(count):
        arc = marks.arc(Fraction(1, count))
        seen += arc.ordered(NAMES)
        marks = marks.through(arc, arc.length, float(day))
    assert set(seen) == set(NAMES)
    assert len(seen) == len(NAMES)
    assert all(marks.verified_seconds(name) is not None for name in NAMES)


def test_what_an_interruption_left_comes_next_and_then_everything():
    marks = Marks().through(Arc(0, CIRCLE), CIRCLE // 4, 1.0)
    left = marks.arc(None)
    assert left == Arc(CIRCLE // 4, CIRCLE - CIRCLE // 4)
    assert marks.through(left, left.length, 2.0).arc(None).length == CIRCLE


def test_shards_are_read_in_the_order_of_their_places_from_the_start():
    arc = Arc(place_of(NAMES[7]), CIRCLE)
    ordered = arc.ordered(NAMES)
    assert ordered[0] == NAMES[7]
    assert sorted(ordered) == NAMES
    assert arc.ordered(NAMES[:20]) == [name for name in ordered if name in NAMES[:20]]


def test_a_suspect_is_forgotten_when_it_is_sound():
    marks = Marks().judged("a", is_sound=False).judged("b", is_sound=False).judged("a", is_sound=False)
    assert marks.suspects == ("b", "a")
    assert marks.judged("b", is_sound=True).suspects == ("a",)


def test_marks_are_read_as_they_were_written():
    storage = open_storage("memory://")
    assert read_marks(storage) == Marks()
    marks = marks_after([(Fraction(1, 7), 0.5), (Fraction(1, 3), 1.0)]).judged("a.tar", is_sound=False)
    write_marks(storage, marks)
    assert read_marks(storage) == marks


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"headrace_verified": 1, "crc32": "00000000"}'])
def test_damaged_marks_count_as_none_and_are_logged(content, caplog):
    storage = open_storage("memory://")
    storage.write(MARKS_FILE, content)
    assert read_marks(storage) == Marks()
    assert "verification begins again" in caplog.text
