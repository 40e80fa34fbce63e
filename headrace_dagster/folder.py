"""Definitions of a folder of YAML files: the call for projects that load their definitions in Python."""

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

import dagster as dg

from headrace.config.folder import find_configs
from headrace.errors import ConfigError
from headrace_dagster.assets.factory import build_assets, default_resources
from headrace_dagster.assets.invalid_yaml import invalid_yaml_assets
from headrace_dagster.assets.project_dataset import ProjectDataset, prefix_parts
from headrace_dagster.assets.tags import DATASET_TAG
from headrace_dagster.resources.dagster_internals.loading_run import loading_run
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.factory import build_automation
from headrace_dagster.sensors.loaded import DatasetFolder


def dataset_definitions(  # noqa: PLR0913 - what projects may set
    folder: str | Path,
    *,
    root: str | Path,
    key_prefix: str | Sequence[str] = (),
    resources: Mapping[str, object] | None = None,
    executor: dg.ExecutorDefinition | None = None,
    names: Collection[str] | None = None,
) -> dg.Definitions:
    """Assets, checks, sensors, schedules, jobs and resources of all data sets of a folder.

    Reads the YAML files and does no other I/O. An invalid file is not loaded, but the others are: the asset
    `NAME/invalid_yaml`, the log and the sensor `headrace_definitions_changes` name the file, the key and what was
    expected.

    Args:
        folder: has one YAML file for each data set, named after it; relative to `root`.
        root: the project's folder, to which relative URIs in the YAML files are relative.
        key_prefix: parts of asset keys in front of a data set's name: `audio` or `["audio", "raw"]`.
        resources: used instead of the default ones, by key: `headrace_encoders`, `headrace_workers`,
            `headrace_storage`, `headrace_progress`.
        executor: of the definitions; None leaves it to the project that merges them into its own.
        names: only these data sets; None for all. `names_of_run()` makes the process of a run load its own one.

    Raises:
        ConfigError: the folder is missing, a resource has another key, or `key_prefix` is invalid.
    """
    origin = DatasetFolder(Path(root, folder), Path(root), None if names is None else tuple(names))
    found = find_configs(origin.path, origin.root, names)
    for fault in found.faults:
        logging.getLogger("headrace").error("not loaded: %s", fault)
    above = prefix_parts(key_prefix)
    datasets = [ProjectDataset.named(config, [*above, config.name]) for config in found.configs]
    used = with_defaults(resources or {}, origin.root)
    own = dg.Definitions(assets=invalid_yaml_assets(found.invalid, above), executor=executor)
    automation = build_automation(datasets, storage_of(used), origin)
    return dg.Definitions.merge(build_assets(datasets, used), automation, own)


def names_of_run() -> tuple[str, ...] | None:
    """The data set that this process needs, if it executes a run which a sensor or schedule started for one data set.

    None for code servers, other runs and everything else, which need all data sets.
    """
    run = loading_run()
    name = None if run is None else run.tags.get(DATASET_TAG)
    return None if name is None else (name,)


def storage_of(resources: Mapping[str, object]) -> StorageResource:
    """The storage among the resources of a project, which sensors call outside of any run."""
    return cast("StorageResource", resources["headrace_storage"])


def with_defaults(resources: Mapping[str, object], root: Path) -> dict[str, object]:
    """The default resources, with these instead of some of them.

    Raises:
        ConfigError: a key is not one of the default resources.
    """
    defaults = default_resources(root)
    if unknown := [key for key in resources if key not in defaults]:
        raise ConfigError(f"resources: unknown key {unknown[0]!r}; the resources of headrace are {', '.join(defaults)}")
    return {**defaults, **resources}
