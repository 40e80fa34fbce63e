"""Dagster assets, resources, sensors and schedules that build data sets with `headrace`, for any Dagster project.

Use the component `Dataset` in a `defs.yaml`, or call `dataset_definitions` in Python (docs/dagster.md). The only
package of the distribution that imports Dagster. In a checkout its subpackages `assets`, `resources` and `sensors` are
links to the folders of these names in the repository's root (docs/design/0043).
"""

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
