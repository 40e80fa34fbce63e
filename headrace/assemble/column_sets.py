"""Brings the sets of columns of an output up to date: finds the rows of each partition, and joins them to its samples.

The rows of the set `metadata` are those of the catalog. The rows of the other sets were imported from tables by the
scan (`column_tables`); those of features are computed from the audio. The functions that need
polars import it late, because a code server does without.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.assemble.commit import commit_columns
from headrace.assemble.feature_values import FeatureValues, feature_rows
from headrace.assemble.partition_columns import ColumnValues, build_column_partition
from headrace.assemble.update import PartitionBuild
from headrace.catalog.stored.column_header import ColumnTableHeader, read_table_header
from headrace.catalog.stored.header import (
    HEADER_PATH,
    CatalogHeader,
    PartitionEntry,
    check_grouping,
    partition_in,
    read_header,
)
from headrace.config.content import METADATA_SET, LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, NotFoundError
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.stores.storage import Storage

if TYPE_CHECKING:
    from headrace.assemble.column_values import MetadataValues, TableValues

SCAN = "scan the source (`headrace build` does; in Dagster, materialize the asset `catalog`)"


def columns_folder(output: Storage, name: str) -> Storage:
    """The folder of a set of columns."""
    return output.at(f"columns/{name}")


def rows_of_set(
    output: Storage, catalog: CatalogHeader, name: str, config: DatasetConfig | None = None
) -> dict[str, str] | None:
    """Partition → digest of the rows that a set of columns is made from; None if its table was never imported.

    Args:
        output: the output of the data set.
        catalog: the header of its catalog.
        name: the set.
        config: the settings of the data set, of which the features and the labels matter.
    """
    if config is not None and (feature := config.feature(name)) is not None:
        return dict.fromkeys(catalog.partitions, feature_rows(feature))
    if name != METADATA_SET:
        header = read_table_header(output, name)
        return None if header is None else {p: header.rows.get(p, "") for p in catalog.partitions}
    labels = () if config is None else config.source.labels
    return {name: _metadata_rows(entry, labels) for name, entry in catalog.partitions.items()}


def _metadata_rows(entry: PartitionEntry, labels: tuple[str, ...]) -> str:
    """Digest of the rows of a partition of the metadata; other labels make another one."""
    rows = entry.rows.sha256 if entry.rows else ""
    return f"{rows} labels {json.dumps(sorted(labels))}" if labels else rows


def rows_of_texts(output: Storage, config: DatasetConfig, latents: LatentsConfig) -> dict[str, str] | None:
    """Partition → digest of the rows of the set of columns whose texts latents are made from; None without such a set.

    Raises:
        CatalogError: there is no catalog, or the table of the set was never imported.
    """
    name, _ = config.text_column(latents)
    if not name:
        return None
    return _known_rows(output, name, config)


def _known_rows(output: Storage, name: str, config: DatasetConfig | None) -> dict[str, str]:
    catalog = read_header(output)
    rows = None if catalog is None else rows_of_set(output, catalog, name, config)
    if rows is None:
        raise CatalogError(f"{output.uri}: there are no rows for the columns {name!r} yet; {SCAN}")
    return rows


def is_awaited(output: Storage, config: DatasetConfig, name: str) -> bool:
    """Whether a set of columns is not made yet because its optional table has not come."""
    is_optional = any(entry.optional and entry.name == name for entry in config.columns)
    return is_optional and read_table_header(output, name) is None


def build_columns(
    output: Storage,
    config: DatasetConfig,
    name: str,
    partition: str,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
) -> PartitionBuild:
    """Bring a set of columns of one partition up to date with its audio shards and its rows.

    Args:
        output: the output of the data set.
        config: its settings.
        name: the set: `metadata`, or a name of `columns` or `features`.
        partition: for example `train-0003`.
        progress: called with a number of samples each time this many are done.

    Raises:
        CatalogError: there is no catalog, or the table was never imported.
        BuildError: there are no audio shards, or see `bring_up_to_date`.
    """
    values: Callable[[], ColumnValues]
    labels = config.source.labels if name == METADATA_SET else ()
    if name == METADATA_SET:
        try:
            blob = output.read(HEADER_PATH)
        except NotFoundError as error:
            raise CatalogError(f"{output.uri}: there is no catalog yet; {SCAN}") from error
        totals, entry = partition_in(blob, partition, place := f"{output.uri}/{HEADER_PATH}")
        check_grouping(totals, config, place)
        rows = _metadata_rows(entry, labels)
        values = partial(_metadata, output, config, entry)
    elif (feature := config.feature(name)) is not None:
        rows, values = feature_rows(feature), partial(FeatureValues, output.at("audio"), feature)
    else:
        header = imported(output, name)
        rows = header.rows.get(partition, "")
        values = partial(_joined, output, config, partition, header)
    folder = columns_folder(output, name)
    return build_column_partition(partition, rows, values, output.at("audio"), folder, progress, labels)


def commit_set(output: Storage, name: str, config: DatasetConfig | None = None) -> tuple[NumberedSnapshot, bool]:
    """Commit the snapshot of a set of columns that belongs to the newest audio snapshot.

    Returns:
        The newest snapshot of columns, and whether it is new.

    Raises:
        CatalogError: there is no catalog, or the table was never imported.
        BuildError: see `commit_columns`.
        NotFoundError: there is no audio snapshot yet.
    """
    rows = _known_rows(output, name, config)
    return commit_columns(output.at("audio"), columns_folder(output, name), name, rows)


def bring_columns_up_to_date(output: Storage, config: DatasetConfig, name: str = METADATA_SET) -> NumberedSnapshot:
    """Bring a set of columns of all partitions up to date, and commit its snapshot, without Dagster.

    Raises as `build_columns` and `commit_set`.
    """
    for partition in config.partitioning().partition_keys():
        build_columns(output, config, name, partition)
    return commit_set(output, name, config)[0]


def imported(output: Storage, name: str) -> ColumnTableHeader:
    """The header of the table of a set of columns. Raises `CatalogError` if it was never imported."""
    header = read_table_header(output, name)
    if header is None:
        raise CatalogError(f"{output.uri}: the table of the columns {name!r} was not read yet; {SCAN}")
    return header


def _metadata(output: Storage, config: DatasetConfig, entry: PartitionEntry) -> "MetadataValues":
    """The rows of the header whose digest the manifest will have: a scan may replace the header meanwhile."""
    from headrace.assemble.column_values import MetadataValues  # noqa: PLC0415 - polars, see above
    from headrace.catalog.stored.parts import rows_of_entry  # noqa: PLC0415 - likewise

    return MetadataValues.of(entry.partition, rows_of_entry(output, entry), config.audio.format())


def _joined(output: Storage, config: DatasetConfig, partition: str, header: ColumnTableHeader) -> "TableValues":
    from headrace.assemble.column_tables import imported_rows  # noqa: PLC0415 - polars, see above
    from headrace.assemble.column_values import TableValues, paths_of_samples  # noqa: PLC0415 - likewise
    from headrace.catalog.stored.parts import partition_recordings  # noqa: PLC0415 - likewise

    table = imported_rows(output, header, partition)
    paths = None
    if header.on == "path":
        paths = paths_of_samples(partition_recordings(output, config, partition), config.audio.format())
    return TableValues(table.drop(header.column), table[header.column].to_list(), paths)
