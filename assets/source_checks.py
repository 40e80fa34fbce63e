"""Asset checks that warn of copies across splits, unknown keys in `exclude`, empty splits and rows that may be wrong.

They block nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from headrace.catalog.stored.empty_splits import empty_splits
from headrace.config.source import SampleKind
from headrace.format.rejects import RejectReason
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource

_SHOWN = 10
_DUPLICATES = "no_duplicates_across_splits"
_EXCLUDED = "excluded_keys_found"
_FILLED = "splits_have_samples"
_SPANS = "rows_name_different_spans"
_UNUSED = "columns_are_used"
_CHECKS = {
    _DUPLICATES: "no two recordings with the same bytes are in different splits",
    _EXCLUDED: "every key of `exclude` names a sample",
    _FILLED: "every split with a share has a sample",
    _SPANS: "no two rows name one span of one file",
    _UNUSED: "no column has a meaning in other tools, such as `_skipme`, that no setting uses",
}
_LEAKS = (
    ("content is", "contents are"),
    "in several splits; source.duplicates: group puts copies in one split, source.duplicates: drop keeps one of them",
)
_UNKNOWN = (("key of exclude names", "keys of exclude name"), "no sample; correct or remove what is listed")
_EMPTY = (("split is", "splits are"), "empty")
_REPEATED = (("row names", "rows name"), "the span of another row")
_NOBODY = (("column is", "columns are"), "used by nothing")


def source_checks(dataset: ProjectDataset) -> dg.AssetChecksDefinition:
    """The source checks of a data set, which run in one step after every scan."""
    config, key = dataset.config, dataset.keys.catalog
    specs = [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in _CHECKS.items()]

    @dg.multi_asset_check(name=f"{config.name}__source_checks", specs=specs)
    def checks(headrace_storage: StorageResource) -> Iterator[dg.AssetCheckResult]:
        from headrace.catalog.compared.findings import findings_of  # noqa: PLC0415 - likewise
        from headrace.catalog.compared.type_changes import column_types  # noqa: PLC0415 - likewise
        from headrace.catalog.judging.leaks import LEAK_COLUMNS, leaks  # noqa: PLC0415 - polars: not in a code server
        from headrace.catalog.judging.row_hints import SPAN_COLUMNS, repeated_spans, unused_columns  # noqa: PLC0415 - likewise

        with readable_failures():
            catalog = headrace_storage.catalog(config)
            group = {"largest_group": catalog.header.totals.largest_group}
            leaking = findings_of(catalog, config, "leaks", lambda: leaks(lambda: catalog.partitions(LEAK_COLUMNS)))
            yield _warning(_DUPLICATES, _LEAKS, leaking, key, group)
            rejected = catalog.rejected()
            unknown = rejected.filter(rejected["code"] == RejectReason.EXCLUDES_NOTHING)["key"].to_list()
            yield _warning(_EXCLUDED, _UNKNOWN, unknown, key, {})
            yield _warning(_FILLED, _EMPTY, empty_splits(catalog.header, config.splits), key, {})
            are_rows = config.source.samples == SampleKind.ROWS
            spans = (rows for _, rows in catalog.partitions(SPAN_COLUMNS)) if are_rows else ()
            repeated = findings_of(catalog, config, "spans", lambda: repeated_spans(spans, rejected))
            yield _warning(_SPANS, _REPEATED, repeated, key, {})
            yield _warning(_UNUSED, _NOBODY, unused_columns(column_types(catalog), config), key, {})

    return checks


def _warning(
    name: str, what: tuple[tuple[str, str], str], faults: Sequence[str], key: dg.AssetKey, numbers: Mapping[str, int]
) -> dg.AssetCheckResult:
    (one, several), rest = what
    counted = f"{len(faults)} {one if len(faults) == 1 else several} {rest}"
    return dg.AssetCheckResult(
        passed=not faults,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{counted}:\n\n{markdown_list(faults, _SHOWN)}" if faults else None,
        metadata={"findings": len(faults), **numbers},
        check_name=name,
        asset_key=key,
    )
