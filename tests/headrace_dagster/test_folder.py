"""Tests of `headrace_dagster.folder`."""

from headrace_dagster.folder import names_of_run


def test_outside_of_a_run_all_are_loaded():
    assert names_of_run() is None
