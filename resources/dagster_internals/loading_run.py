"""The run for which this process loads its definitions.

Uses: the frame of `dagster._grpc.impl.core_execute_run`, which loads the definitions of a run in the run's process, and
its local variable `dagster_run`.
Why: the process of a run loads the definitions of the whole code location. With many data sets that takes longer than
many a partition.
Missing: definitions are loaded by importing a module, and nothing says for which run
(`DefinitionsLoadContext` has data of the repository only). No environment variable names the run either. Fails first:
tests/resources/dagster_internals/test_loading_run.py. Without the frame, all data sets are loaded, as without this.
"""

import inspect
import sys

import dagster as dg


def loading_run() -> dg.DagsterRun | None:
    """The run that the caller's module is imported for; None in code servers, sensors and tools."""
    module = sys.modules.get("dagster._grpc.impl")
    code = getattr(getattr(module, "core_execute_run", None), "__code__", None)
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    run = None if frame is None else frame.f_locals.get("dagster_run")
    return run if isinstance(run, dg.DagsterRun) else None
