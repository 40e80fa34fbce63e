"""Names in a few bytes each: which have come, and which number each has."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sources import name_index
from headrace.sources.name_index import Kept, NameIndex, SeenNames

TEXT = st.text(st.characters() | st.sampled_from("\ud800\udcff"), max_size=4)
NAMES = st.lists(TEXT, max_size=30)


@pytest.mark.medium
@given(st.lists(NAMES, max_size=12))
def test_a_name_is_new_when_it_comes_for_the_first_time(chunks):
    seen, known = SeenNames(), set()
    for names in chunks:
        expected = [name not in known and name not in names[:at] for at, name in enumerate(names)]
        assert seen.add(names).tolist() == expected
        known.update(names)


@given(st.sets(TEXT, max_size=30), TEXT, st.sampled_from([7, 300, 1 << 27, 1 << 50]))
def test_each_name_has_its_number(names, other, step):
    numbers = {name: step * at for at, name in enumerate(names)}
    index = NameIndex(list(numbers), list(numbers.values()))
    for name in [*names, other]:
        assert index.number(name) == numbers.get(name)


def test_hashes_that_are_equal_are_made_again(monkeypatch):
    real, salts = name_index._hashes, []

    def colliding(names, salt):
        salts.append(salt)
        return np.zeros(len(names), np.uint64) if salt < 2 else real(names, salt)

    monkeypatch.setattr(name_index, "_hashes", colliding)
    index = NameIndex(["a", "b"], [1, 2])
    assert (index.number("a"), index.number("b"), max(salts)) == (1, 2, 2)


def test_seen_names_take_a_few_bytes_each():
    seen = SeenNames()
    for start in range(0, 50_000, 1000):
        seen.add([f"a/long/path/of/a/recording/{number}.wav" for number in range(start, start + 1000)])
    assert sum(run.nbytes for run in seen._sorted) == 16 * 50_000
    assert len(seen._sorted) < 8


def test_what_was_asked_for_longest_ago_goes_first():
    made = []

    def make(key):
        return lambda: made.append(key) or key * 4

    kept = Kept(len, most_bytes=10)
    for key in ("a", "b", "a", "c", "a", "b"):
        assert kept.of((key,), make(key)) == key * 4
    assert made == ["a", "b", "c", "b"]


@pytest.mark.parametrize("size", [5, 50])
def test_one_value_is_kept_whatever_it_takes(size):
    kept = Kept(len, most_bytes=10)
    assert kept.of(("a",), lambda: "x" * size) is kept.of(("a",), lambda: "y" * size)


def test_threads_that_want_one_value_make_it_once():
    kept, made, barrier = Kept(len), [], Barrier(4)

    def value(_):
        barrier.wait()
        return kept.of(("a",), lambda: made.append(1) or sleep(0.01) or "x")

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(value, range(4))) == ["x"] * 4
    assert made == [1]


def test_a_value_that_could_not_be_made_is_made_by_the_next():
    kept = Kept(len)
    with pytest.raises(ZeroDivisionError):
        kept.of(("a",), lambda: 1 / 0)
    assert kept.of(("a",), lambda: "x") == "x"
