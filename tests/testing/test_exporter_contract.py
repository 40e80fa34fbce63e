"""`ExporterContract` has a test that fails for an exporter that breaks a sentence of the protocol."""

import itertools
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.exports.exporter import Takes, Written
from headrace.testing import ExporterContract
from tests.support.contracts import failures, new_folders

NUMBERS = itertools.count()


class Files:
    """A correct exporter, of which subclasses break one method."""

    def __init__(self, folder):
        self.folder, self.lines, self.fields = folder, [], None

    def begin(self, fields):
        self.fields = fields
        return Takes.SAMPLES

    def add(self, sample):
        path = f"{sample.split}/{sample.name}.flac"
        self.folder.write(path, sample.audio["audio"].blob)
        self.lines.append(f"{path}\n")

    def finish(self):
        self.folder.write("list.tsv", "".join(self.lines).encode())
        return Written(len(self.lines))


class WithTime(Files):
    def finish(self):
        self.folder.write("time", str(next(NUMBERS)).encode())
        return super().finish()


class Sorted(Files):
    def finish(self):
        self.lines.sort(reverse=True)
        return super().finish()


class Drops(Files):
    def finish(self):
        self.lines.pop()
        return super().finish()


class MixesSplits(Files):
    def add(self, sample):
        path = f"train/{sample.name}.flac"
        self.folder.write(path, sample.audio["audio"].blob)
        self.lines.append(f"{path}\n")


class ByKey(Files):
    def add(self, sample):
        path = f"{sample.split}/{sample.key}.flac"
        self.folder.write(path, sample.audio["audio"].blob)
        self.lines.append(f"{path}\n")


class WritesPast(Files):
    def add(self, sample):
        target = Path(self.folder.uri) / sample.split / f"{sample.name}.flac"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(sample.audio["audio"].blob)
        self.lines.append(f"{sample.split}/{sample.name}.flac\n")


class CountsNothing(Files):
    def finish(self):
        super().finish()
        return Written(0)


class CountsNone(Files):
    def finish(self):
        super().finish()


class RefusesViews(Files):
    def begin(self, fields):
        if fields.view:
            raise ConfigError("no views")
        return super().begin(fields)


class ForeignRefusal(Files):
    def begin(self, fields):
        if fields.view:
            raise ValueError("no views")
        return super().begin(fields)


def failures_of(kind, folder):
    class Mine(ExporterContract):
        def make(self, folder):
            return kind(folder)

        def read(self, folder, split):
            paths = [Path(line) for line in (folder / "list.tsv").read_text().splitlines()]
            return [(path.stem, (folder / path).read_bytes()) for path in paths if path.parent.name == split]

    folders = new_folders(folder)
    return failures(Mine(), lambda: {"tmp_path": next(folders)})


@pytest.mark.parametrize("kind", Files.__subclasses__(), ids=lambda one: one.__name__)
def test_the_contract_of_exporters_finds(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one writes to where it takes the URI of a bucket for a path
    assert failures_of(kind, tmp_path)


def test_the_contract_of_exporters_holds(tmp_path):
    assert not failures_of(Files, tmp_path)
