"""Finds splits that have a share of the groups and no sample. A training job would read nothing from them."""

from collections.abc import Mapping

from headrace.catalog.stored.header import CatalogHeader
from headrace.format.manifests.manifests import split_of


def empty_splits(header: CatalogHeader, shares: Mapping[str, float]) -> list[str]:
    """A line for each split with a share and without samples, with what to do; none for an empty catalog.

    Args:
        header: the catalog.
        shares: split → its share, as in the YAML.
    """
    samples = dict.fromkeys(shares, 0)
    for partition, entry in header.partitions.items():
        samples[split_of(partition)] += entry.num_samples
    total = sum(samples.values())
    if not total:
        return []
    return [
        f"split {split} has none of {total} samples, with a share of {shares[split]:g}: groups are divided by a hash, "
        "and few groups may all fall into other splits; raise its share under `splits`, divide by smaller groups "
        "(`group_by`), add recordings, or remove the split"
        for split, number in samples.items()
        if shares[split] > 0 and not number
    ]
