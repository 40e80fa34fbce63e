"""Exporters by name, also those that installed packages register."""

from importlib.metadata import EntryPoint

import pytest

from headrace.errors import ConfigError
from headrace.exports import kinds
from headrace.exports.exporter import Exporter, SampleExporter, ShardExporter, Takes, Written
from headrace.exports.exporting import export_snapshot
from headrace.exports.folder import ExportFolder


class Keys:
    """An exporter of one file with the keys."""

    def __init__(self, folder):
        self._folder, self._keys = folder, []

    def begin(self, fields):
        return Takes.SAMPLES

    def add(self, sample):
        self._keys.append(sample.name)

    def finish(self):
        self._folder.write("keys.txt", "\n".join(self._keys).encode())
        return Written(1)


@pytest.fixture
def installed(monkeypatch):
    points = [EntryPoint("keys", f"{__name__}:Keys", kinds.GROUP), EntryPoint("nemo", "x:y", kinds.GROUP)]
    monkeypatch.setattr(kinds, "entry_points", lambda group: points if group == kinds.GROUP else [])
    monkeypatch.setattr(EntryPoint, "load", lambda _: Keys)


@pytest.mark.usefixtures("installed")
def test_a_package_adds_a_form(outputs, target):
    found = export_snapshot(outputs["small"], target, "keys")
    assert (found.to, found.num_shards, found.num_samples) == ("keys", 1, 3)
    assert target.read("keys.txt").split() == [b"clip00000", b"clip00001", b"clip00002"]


@pytest.mark.usefixtures("installed")
def test_the_error_about_an_unknown_form_lists_all_forms(target):
    with pytest.raises(ConfigError, match="croissant, dali, energon, keys, lhotse, nemo, parquet, webdataset"):
        kinds.open_exporter("nope", ExportFolder(target))


@pytest.mark.parametrize("to", kinds.KINDS)
def test_every_form_of_this_package_takes_shards_or_samples(target, to):
    exporter: Exporter = kinds.open_exporter(to, ExportFolder(target))
    assert isinstance(exporter, ShardExporter | SampleExporter)
