"""Tests of `headrace_dagster.resources.environment`."""

import pytest

from headrace.errors import ConfigError
from headrace_dagster.resources.environment import workers_of
from headrace_dagster.resources.workers import WorkersResource


def test_without_the_variable_workers_are_threads_of_this_machine():
    assert workers_of({}) == workers_of({"HEADRACE_RAY_ADDRESS": ""}) == WorkersResource()


def test_the_error_about_an_invalid_number_of_processors_names_the_variable():
    with pytest.raises(ConfigError, match="HEADRACE_RAY_CPUS=many: expected a number"):
        workers_of({"HEADRACE_RAY_ADDRESS": "auto", "HEADRACE_RAY_CPUS": "many"})
