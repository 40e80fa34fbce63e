"""Definitions that Dagster loads: the data sets of `HEADRACE_DATASETS` (default `datasets/`; relative to this folder).

The process of a run loads only its own data set, if a sensor or schedule started the run.
This repository uses `headrace_dagster` as any other Dagster project does (docs/dagster.md).
"""

import dagster as dg

from headrace_dagster import dataset_definitions, names_of_run
from headrace_dagster.build_command.repository import REPOSITORY_ROOT, datasets_folder

defs = dataset_definitions(
    datasets_folder(), root=REPOSITORY_ROOT, executor=dg.in_process_executor, names=names_of_run()
)
