"""Dagster assets, resources, sensors and schedules that build data sets with `headrace`, for any Dagster project.

Use the component `Dataset` in a `defs.yaml`, or call `dataset_definitions` in Python (docs/dagster.md). The only
package of the distribution that imports Dagster. In a checkout its subpackages `assets`, `resources` and `sensors` are
links to the folders of these names in the repository's root (docs/design/0043).
The public names are loaded on first use: a build by the command needs neither sensors nor components.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_dagster.assets.keys import DatasetKeys
    from headrace_dagster.assets.project_dataset import ProjectDataset
    from headrace_dagster.component import Dataset
    from headrace_dagster.folder import dataset_definitions, names_of_run
    from headrace_dagster.project_resources import Resources
    from headrace_dagster.resources.encoders import EncodersResource
    from headrace_dagster.resources.ray_workers import RayWorkersResource
    from headrace_dagster.resources.storage import StorageResource
    from headrace_dagster.resources.workers import WorkersResource

__all__ = [
    "Dataset",
    "DatasetKeys",
    "EncodersResource",
    "ProjectDataset",
    "RayWorkersResource",
    "Resources",
    "StorageResource",
    "WorkersResource",
    "dataset_definitions",
    "names_of_run",
]

_HOMES = {
    "Dataset": "headrace_dagster.component",
    "DatasetKeys": "headrace_dagster.assets.keys",
    "EncodersResource": "headrace_dagster.resources.encoders",
    "ProjectDataset": "headrace_dagster.assets.project_dataset",
    "RayWorkersResource": "headrace_dagster.resources.ray_workers",
    "Resources": "headrace_dagster.project_resources",
    "StorageResource": "headrace_dagster.resources.storage",
    "WorkersResource": "headrace_dagster.resources.workers",
    "dataset_definitions": "headrace_dagster.folder",
    "names_of_run": "headrace_dagster.folder",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace_dagster' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
