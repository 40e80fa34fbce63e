"""The contract of exporters, on files and a list."""

from pathlib import Path

from headrace.exports.kinds import open_exporter
from headrace.testing import ExporterContract


class TestFiles(ExporterContract):
    """Every test of the contract."""

    def make(self, folder):
        return open_exporter("files", folder)

    def read(self, folder, split):
        paths = [Path(line.split("\t")[0]) for line in (folder / "list.tsv").read_text().splitlines()]
        return [(path.stem, (folder / path).read_bytes()) for path in paths if path.parent.name == split]
