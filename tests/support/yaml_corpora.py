"""A corpus in a folder, and the YAML that reads it: scanned and built by the library's own steps, without a run."""

import io
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import soundfile
import yaml

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.catalog.rows.schemas import OWN_COLUMNS
from headrace.catalog.scanning.scan import Scan
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.stored.parts import existing_catalog, partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig, load_config
from headrace_dagster.resources.storage import StorageResource
from tests.support.builds import write_wav


@dataclass
class YamlCorpus:
    """A corpus in `folder`/corpus, which is named by `source.uri`; the root of relative paths is `folder`/root."""

    folder: Path
    sections: dict = field(default_factory=dict)
    runtime: ScanRuntime = field(default_factory=lambda: ScanRuntime(sleep=lambda _: None))

    def __post_init__(self):
        self.corpus.mkdir(parents=True)
        self.root.mkdir(parents=True)

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def storage(self) -> StorageResource:
        return StorageResource(root=str(self.root))

    def put(self, *names, **form) -> None:
        """Write recordings; their content is a function of the name."""
        for name in names:
            write_wav(self.corpus / name, name, **form)

    def write(self, name, text) -> None:
        """Write a file; its name is relative to the corpus."""
        path = self.corpus / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def config(self, **source) -> DatasetConfig:
        """The settings of a YAML file with these keys of `source`."""
        content = {
            "source": {"uri": str(self.corpus), "settle_seconds": 0, **source},
            "splits": {"train": 1},
            "output": {"uri": str(self.folder / "output")},
            **self.sections,
        }
        file = self.folder / "corpus.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return load_config(file)

    def scan(self, **source) -> Scan:
        """Scan the corpus."""
        config, storage = self.config(**source), self.storage
        output = storage.output(config)
        table, excluded = storage.metadata(config), storage.excluded(config)
        return update_catalog(config, storage.source(config), table, output, self.runtime, excluded=excluded)[0]

    def rows(self, **source) -> list[dict]:
        """Scan, and return the recordings without Headrace's own columns, except `path`."""
        recordings = self.scan(**source).recordings
        users = [name for name in recordings.columns if name not in OWN_COLUMNS]
        return recordings.select("path", *users).to_dicts()

    def rejects(self, **source) -> dict[str, str]:
        """Scan, and return path → reason of what is rejected."""
        return {row["path"]: row["reason"] for row in self.scan(**source).rejected.to_dicts()}

    def build(self, **source) -> list[str]:
        """Scan and build; returns the names of the shards that were written."""
        self.scan(**source)
        config, storage = self.config(**source), self.storage
        output = storage.output(config)
        settings = ShardSettings(config.audio.format(), config.shards.size, config.shards.reshuffle)
        written, catalog = [], existing_catalog(output)
        for partition in catalog.header.partitions:
            recordings = partition_recordings(output, config, partition)
            made = build_partition(
                partition, recordings, settings, storage.source(config), storage.audio(config), num_threads=1
            )
            written += made.written
        wanted = {name: settings.wanted(digest) for name, digest in catalog.header.fingerprints.items()}
        commit_partitions(storage.audio(config), wanted, catalog.header.digest)
        return written

    def samples(self, **source) -> dict[str, dict]:
        """Build everything again, and return key → the JSON of each sample, its `audio` and its `extension`."""
        shutil.rmtree(self.folder / "output/audio", ignore_errors=True)
        self.build(**source)
        found: dict[str, dict] = {}
        for path in (self.folder / "output/audio").rglob("*.tar"):
            with tarfile.open(path) as tar:
                for member in tar:
                    key, _, extension = member.name.partition(".")
                    blob = tar.extractfile(member).read()
                    sample = found.setdefault(key, {})
                    if extension == "json":
                        sample |= json.loads(blob)
                    else:
                        audio = soundfile.read(io.BytesIO(blob), dtype="int16", always_2d=True)[0]
                        sample |= {"audio": audio, "extension": extension}
        return found


def rejected_codes(scan: Scan) -> dict[str, int]:
    """Code → number of rejected files and rows."""
    return dict(scan.rejected.group_by("code").agg(pl.len()).iter_rows())
