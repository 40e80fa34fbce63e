"""The asset NAME/<view>_view: evaluates a view on the newest audio and columns, and commits its snapshot."""

from collections.abc import Iterator, Sequence

import dagster as dg

from headrace.assemble.views import WantedView, awaited_sets, build_view, is_up_to_date, newest_view
from headrace.errors import EmptyViewError
from headrace.format.beside.views import NumberedView, ViewSnapshot
from headrace.stores.storage import Storage
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, short_digest
from headrace_dagster.assets.metadata import Metadata, table
from headrace_dagster.assets.pictures import share_bars
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import AssetRecords
from headrace_dagster.assets.waiting import waiting_events
from headrace_dagster.resources.storage import StorageResource

_COLUMNS = {"split": "string", "samples": "int", "chosen": "int", "share": "float", "in_an_epoch": "int"}


def view_asset(dataset: ProjectDataset, name: str) -> dg.AssetsDefinition:
    """The asset NAME/<view>_view of a data set."""
    config, keys = dataset.config, dataset.keys
    key = keys.view(name)
    wanted = WantedView.of(config, name)
    check = dg.AssetCheckSpec(
        f"{name}_chooses_samples",
        asset=key,
        description="The view chooses samples. If it chooses none, no snapshot is committed, and readers keep the "
        "previous one.",
    )

    @dg.asset(
        key=key,
        check_specs=[check],
        deps=[keys.sizes_index, *map(keys.columns_index, config.column_sets)],
        code_version=short_digest(str(wanted.definition))[:16],
        group_name=config.name,
        owners=config.owners,
        kinds={"polars"},
        description=f"How often each sample comes in an epoch: {wanted.definition}. Evaluated on the newest audio "
        "snapshot and the columns that fit it. Training reads it by the name of the view.",
    )
    def view(headrace_storage: StorageResource) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        with readable_failures():
            output = headrace_storage.output(config)
            if awaited := awaited_sets(output, wanted):
                yield from waiting_events(awaited, [check])
                return
            try:
                built, is_new = build_view(output, wanted)
            except EmptyViewError as error:
                yield dg.AssetCheckResult(check_name=check.name, asset_key=key, passed=False, description=str(error))
                raise
        yield dg.AssetCheckResult(
            check_name=check.name,
            asset_key=key,
            passed=True,
            metadata={"kept_share": _share(built.snapshot.num_chosen, built.snapshot.num_samples)},
        )
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(built.snapshot.fingerprint),
            metadata=_metadata(built, is_new=is_new),
            tags={INPUTS_TAG: view_inputs(built.snapshot)},
        )

    return view


def waits(dataset: ProjectDataset, output: Storage, name: str, failed: Sequence[str] = ()) -> bool:
    """Whether a view is not built yet because it reads columns of sets that failed, or of absent optional tables."""
    return bool(awaited_sets(output, WantedView.of(dataset.config, name), failed))


def has_view(dataset: ProjectDataset, output: Storage, name: str, records: AssetRecords) -> bool:
    """Whether a view is up to date with audio, columns and YAML, and the instance has recorded it."""
    wanted = WantedView.of(dataset.config, name)
    newest = newest_view(output, wanted)
    return (
        newest is not None
        and is_up_to_date(output, wanted)
        and records.is_made_from(dataset.keys.view(name), view_inputs(newest.snapshot))
    )


def view_inputs(snapshot: ViewSnapshot) -> str:
    """The value of `INPUTS_TAG` of the asset that committed this snapshot."""
    return short_digest(snapshot.to_json().decode())


def _metadata(built: NumberedView, *, is_new: bool) -> Metadata:
    """Numbers of a view, by split, with a plot of the share that it keeps."""
    snapshot = built.snapshot
    rows = [
        {
            "split": split,
            "samples": totals.num_samples,
            "chosen": totals.num_chosen,
            "share": _share(totals.num_chosen, totals.num_samples),
            "in_an_epoch": totals.num_drawn,
        }
        for split, totals in snapshot.splits.items()
    ]
    shares = {split: _share(totals.num_chosen, totals.num_samples) for split, totals in snapshot.splits.items()}
    return {
        "dagster/row_count": snapshot.num_drawn,
        "snapshot": built.number,
        "is_new": is_new,
        "fits_snapshot": snapshot.audio_snapshot,
        "columns_read": ", ".join(f"{origin.set} at snapshot {origin.snapshot}" for origin in snapshot.columns)
        or "none",
        "definition": str(snapshot.definition),
        "samples": snapshot.num_samples,
        "samples_chosen": snapshot.num_chosen,
        "kept_share": _share(snapshot.num_chosen, snapshot.num_samples),
        "splits_table": table(rows, _COLUMNS),
        "kept_picture": dg.MetadataValue.md(share_bars(shares)),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
