"""A small data set of its own for a test: a folder of tones, a YAML file, and the graph over them."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import numpy as np
import polars as pl
import soundfile
import yaml
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from assets.factory import build_definitions
from assets.keys import DatasetKeys
from headrace.catalog_partitions import PARTITION, with_partitions
from headrace.catalog_update import existing_catalog
from headrace.config import DatasetConfig, load_config
from headrace.storage import Storage
from resources.storage import StorageResource
from tests.instances import memory_instance

RATE_HZ = 8000


@dataclass
class Project:
    """A data set called `tones` below `folder`."""

    folder: Path
    settings: dict = field(default_factory=dict)

    @property
    def recordings(self) -> Path:
        return self.folder / "recordings"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def datasets(self) -> Path:
        return self.folder / "datasets"

    @property
    def keys(self) -> DatasetKeys:
        return DatasetKeys("tones")

    def write_yaml(self, **changes: object) -> None:
        """Write the YAML anew; sections given replace those from before."""
        self.settings.update(changes)
        content = {
            "source": {"uri": str(self.recordings), "settle_seconds": 0},
            "splits": {"train": 0.7, "test": 0.3},
            "shards": {"samples_per_shard": 2, "partitions": {"train": 3, "test": 1}},
            "loader": {"num_workers": 0},
            "output": {"uri": str(self.output)},
            **self.settings,
        }
        self.datasets.mkdir(exist_ok=True)
        (self.datasets / "tones.yaml").write_text(yaml.safe_dump(content))

    def config(self) -> DatasetConfig:
        return load_config(self.datasets / "tones.yaml")

    def write_tone(self, name: str, *, hz: float = 440.0, seconds: float = 0.05, channels: int = 1) -> Path:
        """A sine as a WAV file; another `hz` is another content."""
        path = self.recordings / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        tone = 0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE_HZ)) / RATE_HZ)
        soundfile.write(path, np.tile(tone[:, None], (1, channels)), RATE_HZ, subtype="PCM_16")
        return path

    def write_tones(self, count: int) -> None:
        for i in range(count):
            self.write_tone(f"tone{i:03d}", hz=200 + i)

    def write_titled_tones(self, count: int) -> None:
        """Tones, and a metadata table with a title for each, which the YAML names."""
        self.write_tones(count)
        table = self.folder / "metadata.csv"
        rows = [f"tone{i:03d}.wav,title {i}\n" for i in range(count)]
        table.write_text("path,title\n" + "".join(rows))
        self.write_yaml(source={"uri": str(self.recordings), "metadata": str(table), "settle_seconds": 0})

    def partition_of(self, path: str) -> str:
        """The partition of a recording, by the stored catalog."""
        config = self.config()
        recordings = existing_catalog(StorageResource().output(config)).recordings
        table = with_partitions(recordings, config.layout(), config.group_by)
        return table.row(by_predicate=pl.col("path") == path, named=True)[PARTITION]

    def files(self) -> dict[str, bytes]:
        """Everything in the output but what names times: path → bytes."""
        return {
            str(path.relative_to(self.output)): path.read_bytes()
            for path in sorted(self.output.rglob("*"))
            if path.is_file() and path.name != "catalog.parquet"
        }

    def sizes(self) -> dict[str, int]:
        return json.loads((self.output / "audio/sizes.json").read_bytes())


class Graph:
    """A project's asset graph with an instance in memory: no daemon, no files but the output's."""

    def __init__(
        self, project: Project, instance: dg.DagsterInstance | None = None, resources: dict[str, object] | None = None
    ) -> None:
        self.project = project
        self.instance = instance or memory_instance()
        self.resources = resources
        self.reload()

    def reload(self) -> None:
        """Load the definitions again, as a code server does after the YAML changed."""
        self.config = self.project.config()
        self.definitions = build_definitions([self.config], self.resources)
        self.job = self.definitions.resolve_implicit_global_asset_job_def()

    @property
    def keys(self) -> DatasetKeys:
        return self.project.keys

    @property
    def partitions(self) -> list[str]:
        return self.config.layout().partition_keys()

    @property
    def audio(self) -> Storage:
        return StorageResource().audio(self.config)

    def run(self, key: dg.AssetKey, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """Materialize one asset with its checks."""
        return self.job.execute_in_process(
            instance=self.instance,
            asset_selection=[key],
            partition_key=partition,
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )

    def scan(self) -> dg.ExecuteInProcessResult:
        return self.run(self.keys.catalog)

    def build(self) -> None:
        """Materialize whatever is not fresh, as the UI would say, up to the audio index."""
        assert self.scan().success
        for partition in self.stale_partitions():
            assert self.run(self.keys.audio_shards, partition).success
        assert self.run(self.keys.sizes_index).success

    def stale_partitions(self) -> list[str]:
        """Partitions of the audio shards that the UI shows as missing or stale."""
        return [name for name in self.partitions if self.status(self.keys.audio_shards, name) != "FRESH"]

    def status(self, key: dg.AssetKey, partition: str | None = None) -> str:
        """What the UI shows: MISSING, STALE or FRESH."""
        graph = self.definitions.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        return resolver.get_status(key, partition).value


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    """Names of the checks that did not pass."""
    return {evaluation.check_name for evaluation in result.get_asset_check_evaluations() if not evaluation.passed}


def touch(path: Path, seconds: float = 100.0) -> None:
    """Give a file another time of change and the same content."""
    status = path.stat()
    os.utime(path, (status.st_atime, status.st_mtime + seconds))
