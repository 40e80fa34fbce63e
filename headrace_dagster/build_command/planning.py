"""Prints what a build would make (`headrace build --plan`). Nothing is written, and Dagster records nothing."""

import argparse
from collections import Counter

from rich.console import Console

from headrace.assemble.build_plan import PlannedBuild, planned_build, scratch_output
from headrace.assemble.dataset_stores import DatasetStores
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.update import check_output, update_catalog, why_no_recordings
from headrace.cli.as_json import plain, print_json
from headrace.cli.tables import bytes_text, duration_text, grid, plain_console
from headrace.config.dataset import DatasetConfig, load_config
from headrace.errors import CatalogError
from headrace_dagster.build_command.place import Place

_SHOWN = 20


def plan_place(place: Place, options: argparse.Namespace) -> int:
    """Print the plan of a build. Returns the exit code.

    Raises:
        HeadraceError: what a scan of the source raises; or no recording is usable, which ends a build.
    """
    config, storage = load_config(place.yaml), DatasetStores(str(place.root))
    console = plain_console(stderr=options.json)
    plan = _planned(config, storage, console)
    if options.json:
        num_samples, seconds, num_bytes = plan.total
        total = {"num_samples": num_samples, "hours": seconds / 3600, "num_bytes": num_bytes}
        print_json({"name": config.name, **plain(plan), "total": total})
    else:
        show_plan(console, config.name, plan)
    return 0


def _planned(config: DatasetConfig, storage: DatasetStores, console: Console) -> PlannedBuild:
    output = storage.output(config)
    check_output(output)
    with console.status("scanning the source", spinner="line"), scratch_output(output) as scratch:
        source, metadata = storage.source(config), storage.metadata(config)
        runtime = ScanRuntime()
        scan, header = update_catalog(config, source, metadata, scratch, runtime, excluded=storage.excluded(config))
        if (why := why_no_recordings(scan, config.source.uri)) is not None:
            raise CatalogError(why)
        return planned_build(scratch, header, config, storage.audio(config))


def show_plan(console: Console, name: str, plan: PlannedBuild) -> None:
    """Print the partitions to build, and the sum of all."""
    rows = [
        (partition, str(one.need), one.num_samples, duration_text(one.seconds), bytes_text(one.num_bytes))
        for partition, one in list(plan.partitions.items())[:_SHOWN]
    ]
    if rows:
        more = f", the first {_SHOWN} of {len(plan.partitions)}" if len(plan.partitions) > _SHOWN else ""
        header = ("partition", "why", "samples#", "length#", "planned bytes#")
        console.print(grid(f"{name}: partitions to build{more}", header, rows))
    num_samples, seconds, num_bytes = plan.total
    needs = Counter(str(one.need) for one in plan.partitions.values())
    why = f" ({', '.join(f'{need}: {count}' for need, count in needs.items())})" if needs else ""
    said = (
        f"{name}: {len(plan.partitions)} partitions to build{why}, {plan.num_current} up to date: {num_samples} "
        f"samples, {seconds / 3600:.2f} h, {bytes_text(num_bytes)} planned for the audio; {plan.num_recordings} "
        f"recordings or rows, {sum(plan.reasons.values())} rejected; nothing was written"
    )
    console.print(said, highlight=False, soft_wrap=True)
