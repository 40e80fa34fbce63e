"""Writes the files of `dg scaffold defs headrace_dagster.Dataset NAME`."""

import re

import dagster as dg
from pydantic import BaseModel, Field

from headrace.config.section import checked_name

_YAML = """\
type: {type}

# The keys of a data set's YAML, as docs/config.md of headrace lists them; all others have defaults.
# Relative URIs are relative to the root of this project.
attributes:
{name}  source:
    uri: {source}
  output:
    uri: {output}
"""
_PYTHON = """\
from pathlib import Path

import dagster as dg
from headrace.config.dataset import DatasetConfig
from headrace_dagster import Dataset, ProjectDataset


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> Dataset:
    config = DatasetConfig(
        name="{name}",
        source={{"uri": "{source}"}},
        output={{"uri": "{output}"}},
    )
    return Dataset(ProjectDataset.named(config), path=Path(__file__))
"""


class ScaffoldParams(BaseModel):
    """Options of the command."""

    source: str | None = Field(None, description="folder or bucket with the recordings")
    output: str | None = Field(None, description="folder or bucket for the data set")


class DatasetScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes `defs.yaml`, or `component.py` with `--format python`."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """The options."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the file. A folder's name that is not valid for a data set is changed into one that is."""
        folder = request.target_path.parent if request.append else request.target_path
        name = data_set_name(folder.name)
        places = {
            "source": request.params.source or f"data/{name}/recordings",
            "output": request.params.output or f"data/{name}/output",
        }
        if request.scaffold_format == "python":
            (folder / "component.py").write_text(_PYTHON.format(name=name, **places), encoding="utf-8")
            return
        stated = f"  name: {name}\n" if request.append or name != folder.name else ""
        text = _YAML.format(type=request.type_name, name=stated, **places)
        if request.append:
            with request.target_path.open("a", encoding="utf-8") as file:
                file.write(f"---\n{text}")
        else:
            (folder / "defs.yaml").write_text(text, encoding="utf-8")


def data_set_name(folder: str) -> str:
    """A valid name for a data set that is like the name of a folder.

    >>> data_set_name("my-birds.v2"), data_set_name("2024"), data_set_name("birds")
    ('my_birds_v2', 'data_2024', 'birds')
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", folder).strip("_") or "data"
    return checked_name(name if name[0].isalpha() else f"data_{name}")
