"""The component `headrace_dagster.Dataset`: one data set, described in the attributes of a `defs.yaml`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import dagster as dg
from pydantic import BaseModel, Field

from headrace.config.dataset import DatasetConfig, parse_config
from headrace.config.folder import clash
from headrace.config.section import Name
from headrace.errors import ConfigError
from headrace_dagster.assets.factory import build_assets
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.folder import storage_of
from headrace_dagster.project_resources import Resources, resources_of
from headrace_dagster.scaffolding import DatasetScaffolder
from headrace_dagster.sensors.alerts import alerts_sensor
from headrace_dagster.sensors.factory import dataset_automation
from headrace_dagster.sensors.loaded import LoadedFile


class DatasetAttributes(DatasetConfig):
    """Attributes of `headrace_dagster.Dataset`: the keys of a data set's YAML (docs/config.md) and two more."""

    name: Name | None = Field(None, description="name of the data set; the folder's name by default")  # type: ignore[assignment]
    key_prefix: str | list[str] | None = Field(
        None, description="parts of the asset keys in front of `catalog` and so on; the data set's name by default"
    )


@dg.scaffold_with(DatasetScaffolder)
@dataclass
class Dataset(dg.Component):
    """Raw audio to training-ready WebDataset shards: assets, checks, sensors and schedules of one data set.

    The attributes are the keys of a data set's YAML. The data set is named after the folder of its `defs.yaml`, unless
    `name` says otherwise. Its asset keys begin with its name, unless `key_prefix` says otherwise. Relative URIs are
    relative to the project's root.

    Attributes:
        dataset: the data set.
        path: the file or folder that describes it, for messages.
        origin: the file that the sensors compare with what was loaded; None for a data set made in Python.
    """

    dataset: ProjectDataset
    path: Path = Path()
    origin: LoadedFile | None = None
    _resources: dict[str, object] | None = field(default=None, repr=False)

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The schema of the attributes."""
        return DatasetAttributes

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Description that `dg list components` shows."""
        return dg.ComponentTypeSpec(
            description="Raw audio to training-ready WebDataset shards: one data set with its checks, sensors and "
            "schedules.",
            produces=["asset", "asset_check", "sensor", "schedule", "job", "resource"],
        )

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """The data set of a `defs.yaml`, with its templates (`{{ env.BUCKET }}`) filled in.

        Raises:
            ConfigError: an attribute is missing or invalid.
        """
        path = context.component_path.file_path
        folder, file = (path, path / "defs.yaml") if path.is_dir() else (path.parent, path)
        given = {} if attributes is None else attributes.model_dump(exclude_unset=True, by_alias=True)
        content = dict(context.resolution_context.resolve_value(given))
        key_prefix, name = content.pop("key_prefix", None), content.pop("name", None) or folder.name
        dataset = ProjectDataset.named(parse_config(content, name, file), key_prefix)
        return cls(dataset, file, LoadedFile.now(file) if file.is_file() else None)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Assets, checks, sensors, schedules, jobs and resources of the data set.

        The first data set of a project also has what all of them share: one sensor for alerts. Their resources are the
        same objects, because Dagster refuses to merge two resources of one key.

        Raises:
            ConfigError: another data set of the project has the same name or output.
        """
        datasets = self._all(context)
        self._check_others(datasets, context.project_root)
        first = datasets[0]
        resources = first.shared_resources(context)
        own = dataset_automation(self.dataset, storage_of(resources), self.origin)
        shared = [alerts_sensor([other.dataset for other in datasets])] if first is self else []
        return dg.Definitions.merge(build_assets([self.dataset], resources), own, dg.Definitions(sensors=shared))

    def shared_resources(self, context: dg.ComponentLoadContext) -> dict[str, object]:
        """The resources of all data sets of the project, the same objects in each call."""
        if self._resources is None:
            settings = context.component_tree.get_all_components(Resources)
            self._resources = resources_of(settings, context.project_root)
        return self._resources

    def _all(self, context: dg.ComponentLoadContext) -> list["Dataset"]:
        """The data sets of the project, this one among them."""
        found = context.component_tree.get_all_components(Dataset)
        return found if any(other is self for other in found) else [self]

    def _check_others(self, datasets: list["Dataset"], root: Path) -> None:
        others = [other for other in datasets if other is not self]
        for other in others:
            if other.dataset.name == self.dataset.name:
                raise ConfigError(
                    f"{self.path}: {other.path} is a data set of the same name, {self.dataset.name}; give one of them "
                    "another name with the attribute `name`"
                )
            if fault := clash(self.path.parent, self.dataset.config, {other.path.parent: other.dataset.config}, root):
                raise ConfigError(fault)
