"""Finds exporters by name: those of this package, and those that installed packages register.

A package registers a function of an `ExportFolder` that returns an `Exporter`, as an entry point of the group
`headrace.exports`.
"""

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import cast

from headrace.errors import ConfigError
from headrace.exports.exporter import Exporter
from headrace.exports.folder import ExportFolder

GROUP = "headrace.exports"
KINDS = {
    "webdataset": "headrace.exports.webdataset:WebDatasetExporter",
    "parquet": "headrace.exports.parquet:ParquetExporter",
    "nemo": "headrace.exports.nemo:NemoExporter",
    "lhotse": "headrace.exports.lhotse:LhotseExporter",
    "energon": "headrace.exports.energon:EnergonExporter",
    "dali": "headrace.exports.dali:DaliExporter",
    "croissant": "headrace.exports.croissant:CroissantExporter",
}


def open_exporter(to: str, folder: ExportFolder) -> Exporter:
    """An exporter by name.

    Raises:
        ConfigError: no exporter has this name; the message lists those that there are.
        MissingDependencyError: its package is not installed.
    """
    return _factory(to)(folder)


def _factory(to: str) -> Callable[[ExportFolder], Exporter]:
    if to in KINDS:
        module, _, name = KINDS[to].partition(":")
        return cast("Callable[[ExportFolder], Exporter]", getattr(importlib.import_module(module), name))
    others = {point.name: point for point in entry_points(group=GROUP)}
    if to not in others:
        raise ConfigError(f"--to {to}: unknown; there are {', '.join(sorted({*KINDS, *others}))}")
    return cast("Callable[[ExportFolder], Exporter]", others[to].load())
