"""A split that has a share and no sample is named, with what to do."""

import pytest

from headrace.catalog.stored.empty_splits import empty_splits
from headrace.catalog.stored.header import CatalogHeader, PartitionEntry
from headrace.catalog.stored.header_lines import CatalogTotals


def header(**samples):
    """A catalog with this many samples in each partition."""
    nothing = dict.fromkeys(CatalogTotals.__dataclass_fields__)
    entries = {
        name: PartitionEntry(name, "", "", number, number, float(number), 100 * number, None, None)
        for name, number in ((name.replace("_", "-"), number) for name, number in samples.items())
    }
    return CatalogHeader(CatalogTotals(**nothing), entries)


@pytest.mark.parametrize(
    ("samples", "shares", "empty"),
    [
        ({"train_0000": 9, "dev_0000": 1, "test_0000": 0}, {"train": 0.9, "dev": 0.05, "test": 0.05}, ["test"]),
        ({"train_0000": 10, "test_0000": 0, "test_0001": 0}, {"train": 0.9, "test": 0.1}, ["test"]),
        ({"train_0000": 0, "train_0001": 1, "test_0000": 1}, {"train": 0.9, "test": 0.1}, []),
        ({"train_0000": 10, "test_0000": 0}, {"train": 1.0, "test": 0.0}, []),
        ({"train_0000": 0, "test_0000": 3, "dev_0000": 0}, {"train": 0.8, "test": 0.1, "dev": 0.1}, ["train", "dev"]),
        ({"train_0000": 0, "test_0000": 0}, {"train": 0.9, "test": 0.1}, []),
    ],
)  # fmt: skip
def test_splits_with_a_share_and_without_samples_are_named(samples, shares, empty):
    lines = empty_splits(header(**samples), shares)
    assert [line.split()[1] for line in lines] == empty
    assert all("raise its share" in line and f"none of {sum(samples.values())} samples" in line for line in lines)
