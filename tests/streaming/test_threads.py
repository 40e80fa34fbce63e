"""How threads share out the making of batches."""

import pytest

from headrace.streaming.threads import ThreadedBatches


class Prepared:
    """A batch that is merely copied."""

    is_light = True

    def __len__(self):
        return 1


class Assembler:
    """Opens batches as a function of their number says."""

    def __init__(self, opening):
        self.opening = opening

    def prepare(self, number):
        self.opening(number)
        return Prepared()

    def fill(self, prepared, start, stop):
        pass

    def finish(self, prepared):
        return "batch"


def test_an_error_comes_in_its_batchs_place():
    def opening(number):
        if number == 2:
            raise ValueError("no such shard")

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3)
    made = batches.run(iter(range(4)))
    assert [next(made), next(made)] == ["batch", "batch"]
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()
