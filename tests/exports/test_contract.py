"""Every exporter keeps the contract.

Parquet and WebDataset are read by the packages `datasets` and `webdataset`, all others by readers that are rebuilt from
the published forms (`tests/support/export_readers.py`), because their packages are not installed.
"""

import json
import tarfile

import pytest

from headrace.exports.kinds import open_exporter
from headrace.testing import ExporterContract
from tests.support import export_readers


class Contract(ExporterContract):
    to = ""

    def make(self, folder):
        return open_exporter(self.to, folder)


class TestWebDataset(Contract):
    to = "webdataset"

    @pytest.fixture(autouse=True)
    def closed(self, closed_by_webdataset):
        pass

    def read(self, folder, split):
        import webdataset as wds

        names = [name for name in json.loads((folder / "sizes.json").read_text()) if name.startswith(split)]
        assert names == sorted(path.name for path in folder.glob(f"{split}_*.tar"))
        samples = wds.WebDataset([str(folder / name) for name in names], shardshuffle=False)
        return [(sample["__key__"], sample["flac"]) for sample in samples]


class TestParquet(Contract):
    to = "parquet"

    @pytest.fixture(autouse=True)
    def offline(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        self.cache = tmp_path / "cache"

    def read(self, folder, split):
        import datasets

        rows = datasets.load_dataset(str(folder), split=split, streaming=True, cache_dir=str(self.cache))
        assert isinstance(rows.features["audio"], datasets.Audio)
        rows = rows.cast_column("audio", datasets.Audio(decode=False))
        return [(row["audio"]["path"].removesuffix(".flac"), row["audio"]["bytes"]) for row in rows]


class TestNemo(Contract):
    to = "nemo"

    def read(self, folder, split):
        return export_readers.nemo(folder / split if (folder / split).is_dir() else folder)[0]


class TestLhotse(Contract):
    to = "lhotse"

    def read(self, folder, split):
        return export_readers.shar(folder / split)[0]


class TestEnergon(Contract):
    to = "energon"

    def read(self, folder, split):
        return export_readers.energon(folder, split)


class TestDali(Contract):
    to = "dali"

    def read(self, folder, split):
        return export_readers.dali(folder, split)


class TestCroissant(Contract):
    to = "croissant"

    def read(self, folder, split):
        described = json.loads((folder / "croissant.json").read_text())
        found = []
        for file in described["distribution"]:
            if file["@type"] == "cr:FileObject" and file["name"].startswith(split):
                with tarfile.open(folder / file["contentUrl"]) as archive:
                    flacs = [info for info in archive if info.name.endswith(".flac")]
                    found += [(one.name.removesuffix(".flac"), archive.extractfile(one).read()) for one in flacs]
        return found
