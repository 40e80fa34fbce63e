"""Definitions that `headrace ui` loads: those of one data set."""

from headrace_dagster.build_command.serving import served_definitions

defs = served_definitions()
