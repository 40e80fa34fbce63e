"""Audio is compared with the latents that are read beside it: any wrong pair, lost or repeated sample is a fault."""

from types import SimpleNamespace

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.smoke.arrivals import JoinedArrival
from headrace.smoke.joined import JoinedReading, PartRead, spans_of


class Expected:
    """The samples with these keys; the rejected ones are not expected."""

    def __init__(self, keys, rejected=(), drawn=()):
        self.keys, self.rejected = [key for key in keys if key not in rejected], rejected
        self.is_drawn = np.array([key in drawn for key in self.keys])

    def __len__(self):
        return len(self.keys)

    def find(self, key):
        return self.keys.index(key) if key in self.keys else None

    def is_rejected(self, key):
        return key in self.rejected


def part(keys, contents, rejected=(), drawn=()):
    expected = Expected(keys, rejected, drawn)
    seen = SimpleNamespace(times=np.ones(len(expected), int), content=np.array(contents))
    return PartRead("uri", expected, seen)


def faults(monkeypatch, arrivals, latents=None, error=None, zeros=()):
    """Number of samples and faults of these arrivals: key, content of the audio, content of the latents."""

    def arrived(self, spans):
        yield from (JoinedArrival(key, contents, frozenset(zeros)) for key, *contents in arrivals)
        if error:
            raise error

    monkeypatch.setattr(JoinedReading, "_arrivals", arrived)
    reading = JoinedReading(part("ab", [1, 2]), {"mel": latents or part("ab", [10, 20])}, 1, 1, 0)
    found = []
    return reading.faults([], found), found


def test_each_sample_arrives_once_with_its_own_latents(monkeypatch):
    assert faults(monkeypatch, [("b", 2, 20), ("a", 1, 10)]) == (2, [])


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ([("a", 1, 20), ("b", 2, 10)], "a: its mel differs from the mel of this key when read alone"),
        ([("a", 7, 10), ("b", 2, 20)], "a: its audio differs from the audio of this key when read alone"),
        ([("a", 1, 10)], "1 audio samples did not arrive, 0 arrived more than once"),
        ([("a", 1, 10), ("a", 1, 10), ("b", 2, 20)], "0 audio samples did not arrive, 1 arrived more than once"),
        ([("a", 1, 10), ("b", 2, 20), ("x", 1, 1)], "x arrived, but is not in the index of any shard that was read"),
    ],
)
def test_wrong_pairs_and_counts_are_faults(monkeypatch, arrivals, message):
    assert message in faults(monkeypatch, arrivals)[1]


def test_rejected_latents_do_not_arrive(monkeypatch):
    latents = part("ab", [10], rejected=["b"])
    assert faults(monkeypatch, [("a", 1, 10), ("b", 2, None)], latents)[1] == []
    assert faults(monkeypatch, [("a", 1, 10), ("b", 2, 20)], latents)[1] == ["b: arrived with mel that were rejected"]


def test_a_vector_of_zeros_may_be_in_the_place_of_a_rejected_one(monkeypatch):
    latents = part("ab", [10], rejected=["b"])
    assert faults(monkeypatch, [("a", 1, 10), ("b", 2, 20)], latents, zeros=[1])[1] == []


def test_one_of_several_vectors_may_be_another_one(monkeypatch):
    assert faults(monkeypatch, [("a", 1, 11), ("b", 2, 20)], part("ab", [10, 20], drawn="a"))[1] == []
    assert len(faults(monkeypatch, [("a", 1, 10), ("b", 2, 21)], part("ab", [10, 20], drawn="a"))[1]) == 1


def test_latents_of_an_unknown_key_are_a_fault(monkeypatch):
    found = faults(monkeypatch, [("a", 1, 10), ("b", 2, 20)], part("a", [10]))[1]
    assert found == ["b: arrived with mel that do not have this key"]


def test_an_error_of_the_loader_is_a_fault(monkeypatch):
    number, found = faults(monkeypatch, [("a", 1, 10)], error=FormatError("damaged"))
    assert number == 1
    assert found[0] == "reading failed: damaged"


def test_adjacent_shards_are_one_span_of_the_order():
    class Table:
        def __init__(self, **shards):
            self.shards, self.num_samples = list(shards), np.array(list(shards.values()))

        def __len__(self):
            return len(self.shards)

        def names(self):
            return self.shards

        def name(self, row):
            return self.shards[row]

    table = Table(a=5, b=3, c=2, d=4)
    assert spans_of(table, Table(a=5, b=3, d=4)) == [(0, 8), (10, 14)]
    assert spans_of(table, Table(c=2)) == [(8, 10)]
    assert spans_of(table, table) == [(0, 14)]
    assert spans_of(table, Table()) == []
