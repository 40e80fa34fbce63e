"""Shared by test_reconcile and the tests beside it."""

from headrace.assemble.reconcile import wanted_partitions
from headrace.format.manifests.manifests import Manifest, NumberedManifest
from tests.support.catalog_fakes import fingerprints, with_partitions


def numbered(partition: str, wanted: str) -> NumberedManifest:
    return NumberedManifest(3, Manifest(partition, wanted, "source", {}, ()))


def wanted(recordings, config):
    """The wanted input digests of the partitions of these recordings."""
    divided = with_partitions(recordings, config.partitioning(), config.group_by)
    return wanted_partitions(fingerprints(divided, config.partitioning()), config)
