"""Shared by test_row_hints and the tests beside it."""

from headrace.config.dataset import DatasetConfig
from tests.support.catalog_fakes import FakeSource


def source_of(*names):
    fake = FakeSource()
    for name in names:
        fake.put(name, b"x" * 40)
    return fake


def config_of(views=None, group_by=None, **source):
    return DatasetConfig(
        name="hints",
        source={"uri": "fake", "metadata": "t.csv", "settle_seconds": 0, **source},
        views={name: {"where": where} for name, where in (views or {}).items()},
        group_by=group_by,
        output={"uri": "memory://"},
    )
