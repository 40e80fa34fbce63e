"""The checks of a set of columns, which its index makes: the columns fit the audio, and its table names samples."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg

from headrace.assemble.column_sets import imported
from headrace.config.content import METADATA_SET
from headrace.config.dataset import DatasetConfig
from headrace.errors import ConfigError
from headrace.format.manifests.manifests import read_manifest
from headrace.format.snapshots.snapshots import Snapshot
from headrace.stores.storage import Storage
from headrace.verification.column_fit import shard_misfits
from headrace_dagster.assets.build_comparison import verdict
from headrace_dagster.assets.metadata import location, refused_table, table
from headrace_dagster.resources.storage import StorageResource

READ = "column_tables"
FIT, MATCHED, COMPLETE = "columns_fit_audio", "rows_matched", "samples_have_rows"
_SHOWN = 100


def tables_spec(catalog: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check of the catalog that every table of columns could be read."""
    return dg.AssetCheckSpec(
        READ,
        asset=catalog,
        description="Every table of `columns` is valid. While a table is invalid, its columns keep the values of its "
        "last valid version. Warns of an `optional` table that was there before and is gone.",
    )


def read_tables(
    storage: StorageResource, config: DatasetConfig, catalog: dg.AssetKey, retyped: list[str]
) -> dg.AssetCheckResult:
    """Divide the tables of columns among the partitions of the stored catalog. Invalid tables fail the check.

    An optional table that is absent is not imported. It is no fault before its first import, and a warning later.

    Args:
        storage: opens the tables.
        config: the settings of the data set.
        catalog: the asset that the check is about.
        retyped: gets a line for each column that has another type than before.
    """
    from headrace.assemble.column_tables import divide_again, import_table, last_header  # noqa: PLC0415 - polars: not in a code server
    from headrace.catalog.compared.type_changes import type_changes  # noqa: PLC0415 - likewise

    stamps, faults, numbers = storage.table_stamps(config), [], {"rows": 0, "rows_unmatched": 0}
    gone, output = [], storage.output(config)
    for entry in config.columns:
        before = last_header(output, entry.name)
        if entry.optional and not storage.has_table(entry):
            gone += [] if before is None else [entry.table.uri]
            divide_again(storage.catalog(config), config, entry)
            continue
        read = partial(storage.column_table, entry)
        try:
            header = import_table(storage.catalog(config), config, entry, stamps[entry.table.uri], read)
        except ConfigError as error:
            faults.append(str(error))
        else:
            retyped += [] if before is None else type_changes(before.types, header.types, f"columns ({entry.name})")
            numbers["rows"] += header.num_rows
            numbers["rows_unmatched"] += header.num_unmatched
    return tables_verdict(faults, gone, numbers, catalog)


def tables_verdict(
    faults: Sequence[str], gone: Sequence[str], numbers: Mapping[str, int], catalog: dg.AssetKey
) -> dg.AssetCheckResult:
    """The result of the check of tables: an error if a table is invalid, a warning if tables are only gone.

    Args:
        faults: what is wrong with each table that could not be read.
        gone: optional tables that were there before.
        numbers: the metadata of the result.
        catalog: the asset that the check is about.
    """
    if not gone:
        return verdict(faults, numbers, READ, catalog)
    said = (
        f"optional tables that were there before are gone: {', '.join(gone)}; their columns stay as they were. "
        "Put the table back, or take the entry out of `columns`"
    )
    found = verdict([said, *faults], numbers, READ, catalog)
    return found if faults else found._replace(severity=dg.AssetCheckSeverity.WARN)


def column_check_specs(name: str, index: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The checks of a set of columns. Those of a table are warnings."""
    fit = dg.AssetCheckSpec(
        FIT, asset=index, description="Every audio shard has columns, with one row for each of its samples."
    )
    if name == METADATA_SET:
        return [fit]
    return [
        fit,
        dg.AssetCheckSpec(MATCHED, asset=index, description="Every row of the table names a sample. Warns."),
        dg.AssetCheckSpec(COMPLETE, asset=index, description="The table has a row for every sample. Warns."),
    ]


def column_check_results(
    output: Storage, storage: Storage, snapshot: Snapshot, name: str, index: dg.AssetKey
) -> list[dg.AssetCheckResult]:
    """The results of the checks for a snapshot that has just been committed."""
    numbers = {"shards": snapshot.num_shards, "samples": snapshot.num_samples}
    fit = verdict(shard_misfits(output.at("audio"), storage, snapshot), numbers, FIT, index)
    if name == METADATA_SET:
        return [fit]
    return [fit, *_of_table(output, storage, snapshot, name, index)]


def _of_table(
    output: Storage, storage: Storage, snapshot: Snapshot, name: str, index: dg.AssetKey
) -> list[dg.AssetCheckResult]:
    header = imported(output, name)
    rejected = [
        refusal
        for partition, frozen in snapshot.partitions.items()
        if frozen.num_rejected
        for refusal in read_manifest(storage, partition, frozen.number).manifest.refused
    ]
    unmatched = header.num_unmatched + len(rejected)
    metadata: dict[str, Any] = {
        "rows": header.num_rows,
        "rows_merged": header.num_merged,
        "rows_unmatched": unmatched,
        **({"unmatched_rows": location(output, header.unmatched)} if header.unmatched else {}),
        **({"unmatched_table": _listed(output, header.unmatched)} if header.unmatched else {}),
        **({"rejected_table": refused_table(rejected)} if rejected else {}),
    }
    what = "samples" if header.on == "key" else "recordings"
    return [
        dg.AssetCheckResult(
            check_name=MATCHED,
            asset_key=index,
            passed=not unmatched,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{unmatched} of {header.num_rows} rows match no sample" if unmatched else None,
            metadata=metadata,
        ),
        dg.AssetCheckResult(
            check_name=COMPLETE,
            asset_key=index,
            passed=not header.num_without,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{header.num_without} {what} have no row; their values are null"
            if header.num_without
            else None,
            metadata={"without_row": header.num_without},
        ),
    ]


def _listed(output: Storage, path: str) -> dg.TableMetadataValue:
    """The first rows that match nothing, with reasons."""
    from headrace.catalog.stored.parquet_files import parsed_table  # noqa: PLC0415 - polars: not in a code server

    rows, _ = parsed_table(output.read(path), path, {})
    columns = {"row": "int", "name": "string", "code": "string", "reason": "string"}
    return table(rows.head(_SHOWN).to_dicts(), columns)
