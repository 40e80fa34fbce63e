"""Names cannot control a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.printable import printable


@given(st.text(st.characters(), max_size=20))
def test_no_control_but_a_line_break_is_left(text):
    found = printable(text)
    assert all(unicodedata.category(one) not in {"Cc", "Cf", "Cs"} for one in found if one != "\n")
    assert isinstance(found.encode(), bytes)  # no half of a pair is left


def test_other_text_stays_as_it_is():
    assert printable("é漢 [b] :x:\n") == "é漢 [b] :x:\n"
    assert printable(7) == "7"


def test_escapes_directions_and_halves_of_pairs_are_shown_as_escapes():
    assert printable("\x1b[31m\u202e\udc80") == r"\x1b[31m\u202e\udc80"
