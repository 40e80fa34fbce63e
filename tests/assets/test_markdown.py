"""Lists in Markdown, as the web interface shows them."""

import pytest

from headrace_dagster.assets.build_comparison import verdict

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.parametrize(
    ("faults", "text"),
    [([], None), (["a: b"], "a: b"), (["a: b", "c: d\ne"], "- a: b\n- c: d  \n  e")],
)
def test_of_a_check(faults, text):
    assert verdict(faults, {}).description == text


def test_many_faults_are_cut_with_their_number():
    *shown, last = verdict([str(number) for number in range(25)], {}).description.split("\n")
    assert (len(shown), last) == (20, "… and 5 more")
