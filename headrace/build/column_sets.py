"""Brings sets of columns of an output up to date: finds the rows of each partition, and what they are joined to."""

from collections.abc import Mapping

from headrace.build.columns import METADATA, build_column_partition
from headrace.build.commit import commit_columns
from headrace.build.update import PartitionBuild
from headrace.catalog.header import CatalogHeader
from headrace.config.dataset import DatasetConfig
from headrace.format.snapshots import NumberedSnapshot
from headrace.stores.storage import Storage


def metadata_rows(catalog: CatalogHeader) -> dict[str, str]:
    """Partition → digest of its rows in the catalog, from which its set `metadata` is made; empty without rows."""
    return {name: entry.rows.sha256 if entry.rows else "" for name, entry in catalog.partitions.items()}


def build_metadata_partition(
    output: Storage, config: DatasetConfig, partition: str, rows: Mapping[str, str]
) -> PartitionBuild:
    """Bring the set `metadata` of a partition up to date with its audio shards and the stored catalog.

    Args:
        output: the output of the data set.
        config: its settings.
        partition: for example `train-0003`.
        rows: see `metadata_rows`.
    """
    from headrace.build.column_values import MetadataValues  # noqa: PLC0415 - polars: not in a code server
    from headrace.catalog.parts import read_partition  # noqa: PLC0415 - likewise

    def values() -> MetadataValues:
        return MetadataValues.of(partition, read_partition(output, config, partition), config.audio.format())

    folder = output.at(f"columns/{METADATA}")
    return build_column_partition(partition, rows.get(partition, ""), values, output.at("audio"), folder)


def build_metadata(output: Storage, config: DatasetConfig) -> NumberedSnapshot:
    """Bring the set `metadata` of an output up to date, and commit its snapshot, without Dagster.

    Raises:
        CatalogError: there is no catalog, or it was made with other settings.
        BuildError: partitions have no audio shards, or there is no audio snapshot of the catalog.
    """
    from headrace.catalog.parts import current_catalog  # noqa: PLC0415 - polars: not in a code server

    rows = metadata_rows(current_catalog(output, config).header)
    for partition in rows:
        build_metadata_partition(output, config, partition, rows)
    committed, _ = commit_columns(output.at("audio"), output.at(f"columns/{METADATA}"), METADATA, rows)
    return committed
