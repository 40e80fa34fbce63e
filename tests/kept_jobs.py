"""Keeps the jobs that Dagster derives from a job for a selection of assets."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import dagster as dg


@contextlib.contextmanager
def kept_jobs() -> Iterator[None]:
    """Derive the job for a selection once per job, and not twice per run.

    Deriving it, and describing it for the run's record, takes a tenth of a small run's time. Both follow from the job
    and the selection alone.
    """
    with contextlib.ExitStack() as patches:
        for name in ("as_ephemeral_job", "get_subset"):
            patches.enter_context(mock.patch.object(dg.JobDefinition, name, _kept(getattr(dg.JobDefinition, name))))
        yield


def _kept(method):
    def derived(job, **asked):
        selection = {name: None if value is None else frozenset(value) for name, value in asked.items()}
        if selection.get("resource_defs") or selection.get("input_values"):
            return method(job, **asked)
        kept = vars(job).setdefault(f"_kept_{method.__name__}", {})
        key = frozenset(selection.items())
        if key not in kept:
            kept[key] = method(job, **asked)
        return kept[key]

    return derived
