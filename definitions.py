"""What Dagster loads: the data sets of `HEADRACE_DATASETS` (default `datasets/`; a relative path is below this folder).

Reads the YAML files and does no other I/O. A wrong file is not loaded: the log and the sensor `definitions_changes` say
which one, which key, and what was expected. The other data sets go on; every run loads this file, too.
"""

import logging
import os
from pathlib import Path

import dagster as dg

from assets.factory import build_definitions
from headrace.config_folder import find_configs
from resources.storage import REPOSITORY_ROOT
from sensors.factory import build_automation

DATASETS_VARIABLE = "HEADRACE_DATASETS"


def datasets_folder() -> Path:
    """The folder of YAML files, one per data set."""
    return REPOSITORY_ROOT / os.environ.get(DATASETS_VARIABLE, "datasets")


_found = find_configs(datasets_folder(), REPOSITORY_ROOT)
for _fault in _found.faults:
    logging.getLogger("headrace").error("not loaded: %s", _fault)
defs = dg.Definitions.merge(build_definitions(_found.configs), build_automation(_found.configs, datasets_folder()))
