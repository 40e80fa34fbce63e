"""What Dagster loads: the data sets of `HEADRACE_DATASETS` (default `datasets/`; a relative path is below this folder).

Reads the YAML files and does no other I/O. A wrong file stops the load with a message that names file, key and what was
expected.
"""

import os
from pathlib import Path

import dagster as dg

from assets.factory import build_definitions
from headrace.config import find_configs
from resources.storage import REPOSITORY_ROOT
from sensors.factory import build_automation

DATASETS_VARIABLE = "HEADRACE_DATASETS"


def datasets_folder() -> Path:
    """The folder of YAML files, one per data set."""
    return REPOSITORY_ROOT / os.environ.get(DATASETS_VARIABLE, "datasets")


_configs = find_configs(datasets_folder())
defs = dg.Definitions.merge(build_definitions(_configs), build_automation(_configs, datasets_folder()))
