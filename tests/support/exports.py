"""Shared by test_export and the tests beside it."""

import pytest

from headrace.errors import ConfigError
from headrace.exports.exporting import export_snapshot


def tars(target):
    return sorted(path.name for path in target.root.glob("*.tar"))


def everything(target):
    return {path.relative_to(target.root): path.read_bytes() for path in target.root.rglob("*") if path.is_file()}


def refused(source, target, match):
    before = everything(target)
    with pytest.raises(ConfigError, match=match):
        export_snapshot(source, target)
    assert everything(target) == before
