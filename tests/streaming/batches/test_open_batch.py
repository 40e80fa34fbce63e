"""Rows that cannot be read: named, skipped, or read again where the cache was damaged."""

from types import SimpleNamespace

import pytest

from headrace.errors import ConfigError, IntegrityError, SampleError
from headrace.streaming.batches.open_batch import RowErrors, read_again_if_damaged, sample_error
from headrace.streaming.settings import OnBadSample


class Stored:
    """A sample; `renew` fetches it from its store if `can_renew`."""

    def __init__(self, called, *, can_renew=False):
        self.called, self.can_renew, self.num_renewed = called, can_renew, 0

    def renew(self):
        self.num_renewed += 1
        return self.can_renew


def row(called, **more):
    stored = Stored(called, **more)
    return SimpleNamespace(primary=stored, stored=(stored, None))


ROWS = [row("a.tar: sample 'x'"), row("a.tar: sample 'y'"), None]


def fail_second(error):
    def fill(place):
        if place == 1:
            raise error

    return fill


def test_an_error_of_a_row_names_its_sample_and_its_cause():
    errors = RowErrors(ROWS, OnBadSample.RAISE)
    with pytest.raises(SampleError, match=r"a\.tar: sample 'y': ValueError: no number") as caught:
        errors.fill(range(3), fail_second(ValueError("no number")))
    assert isinstance(caught.value.__cause__, ValueError)
    assert str(sample_error(ROWS[0], IntegrityError("cut off"))) == "a.tar: sample 'x': cut off"


def test_a_skipped_row_is_listed_and_the_others_are_filled():
    errors = RowErrors(ROWS, OnBadSample.SKIP)
    errors.fill(range(3), fail_second(ValueError("no number")))
    assert list(errors.skipped) == [1]
    assert errors.messages == ["a.tar: sample 'y': ValueError: no number"]


def test_errors_of_settings_and_of_padding_are_not_those_of_a_sample():
    errors = RowErrors(ROWS, OnBadSample.SKIP)
    with pytest.raises(ConfigError, match="wrong"):
        errors.fill(range(3), fail_second(ConfigError("wrong")))
    with pytest.raises(KeyError):
        errors.fill([2], lambda _: {}["x"])
    assert errors.messages == []


@pytest.mark.parametrize(("can_renew", "num_read"), [(True, 2), (False, 1)])
def test_damage_is_read_again_once_if_the_shard_comes_from_its_store(can_renew, num_read):
    attempts = []

    def read():
        attempts.append(None)
        raise IntegrityError("damaged")

    with pytest.raises(IntegrityError):
        read_again_if_damaged(read, row("x", can_renew=can_renew))
    assert len(attempts) == num_read
    with pytest.raises(IntegrityError):
        read_again_if_damaged(read, None)


def test_other_errors_are_not_read_again():
    one = row("x", can_renew=True)
    with pytest.raises(KeyError):
        read_again_if_damaged(lambda: {}["x"], one)
    assert one.primary.num_renewed == 0
