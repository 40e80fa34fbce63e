"""New rejects, without those that the YAML excludes."""

import pytest

from headrace.format.rejects import ASKED_FOR, Reject, compare_rejects, varied

OLD = Reject("old.wav", "undecodable", "no header")


def test_a_reject_is_reported_once_as_new_and_once_as_gone():
    new = Reject("new.wav", "empty", "0 bytes")
    changes = compare_rejects([OLD], [OLD, new])
    assert (changes.new, changes.num_gone, changes.left_out) == ((new,), 0, ())
    assert changes.faults == {"empty": 1, "undecodable": 1}
    again = compare_rejects([OLD, new], [OLD, new])
    assert (again.new, again.num_gone) == ((), 0)
    mended = compare_rejects([OLD, new], [OLD])
    assert (mended.new, mended.num_gone, mended.faults) == ((), 1, {"undecodable": 1})


@pytest.mark.parametrize(
    ("row", "is_new"),
    [
        (Reject("old.wav", "undecodable", "another sentence"), False),
        (Reject("old.wav", "too_short", "no header"), False),
        (Reject("other.wav", "undecodable", "no header"), True),
        (Reject("old.wav", "metadata_without_file", "no such file", is_row=True), True),
    ],
)
def test_a_reject_is_new_only_if_its_file_or_row_was_accepted(row, is_new):
    assert bool(compare_rejects([OLD], [row]).new) is is_new


@pytest.mark.parametrize("code", sorted(ASKED_FOR))
def test_exclusions_by_the_yaml_are_neither_new_nor_gone_rejects(code):
    row = Reject("copy.wav", code, "as asked")
    coming, going = compare_rejects([], [row]), compare_rejects([row], [])
    assert (coming.new, coming.left_out, coming.faults, coming.asked_for) == ((), (row,), {}, {code: 1})
    assert (going.num_gone, going.left_out, going.asked_for) == (0, (), {})


def test_an_excluded_file_that_becomes_invalid_is_a_new_reject():
    left_out, fault = Reject("a.wav", "excluded", "as asked"), Reject("a.wav", "empty", "0 bytes")
    assert compare_rejects([left_out], [fault]).new == (fault,)
    assert compare_rejects([fault], [left_out]).num_gone == 1


def test_the_first_few_rejects_include_every_reason():
    rows = [Reject(f"{i:02d}.jpg", "not_audio", "") for i in range(50)] + [Reject("z.wav", "empty", "")]
    assert [row.subject for row in varied(rows)[:3]] == ["00.jpg", "z.wav", "01.jpg"]
    assert sorted(varied(rows)) == sorted(rows)
