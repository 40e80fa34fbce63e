"""Waits are counted by cause, each second once."""

from headrace.encoding.stats import Waits


def test_a_wait_within_another_counts_for_the_inner_cause_alone() -> None:
    times = iter([0.0, 1.0, 3.0, 7.0])
    waits = Waits(_now=times.__next__)
    with waits.on("device"), waits.on("decoding"):
        pass
    assert waits.seconds == {"device": 1.0 + 4.0, "decoding": 2.0}


def test_waiting_for_items_counts_what_comes_between_to_nothing() -> None:
    times = iter([0.0, 1.0, 10.0, 12.0, 20.0, 23.0])
    waits = Waits(_now=times.__next__)
    assert list(waits.each("device", iter("ab"))) == ["a", "b"]
    assert waits.seconds == {"device": 1.0 + 2.0 + 3.0}
