"""The folders of this repository."""

import os
from pathlib import Path

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
DATASETS_VARIABLE = "HEADRACE_DATASETS"


def datasets_folder() -> Path:
    """The folder of YAML files, one for each data set."""
    return REPOSITORY_ROOT / os.environ.get(DATASETS_VARIABLE, "datasets")
