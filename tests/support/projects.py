"""A small dataset for one test: a folder of tones, a YAML file, and its asset graph."""

# ruff: noqa: TID251

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import numpy as np
import soundfile
import yaml
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from headrace.catalog.stored.parts import existing_catalog
from headrace.config.dataset import DatasetConfig, load_config
from headrace.stores.storage import Storage
from headrace_dagster.assets.factory import build_assets, default_resources
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from tests.support.instances import memory_instance

RATE_HZ = 8000


@dataclass
class Project:
    """A dataset named `tones` below `folder`."""

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
        return DatasetKeys(("tones",))

    def write_yaml(self, **changes: object) -> None:
        """Write the YAML again. The given sections replace earlier ones."""
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

    def dataset(self) -> ProjectDataset:
        """The dataset as a Dagster project has it."""
        return ProjectDataset.named(self.config())

    def write_tone(self, name: str, *, hz: float = 440.0, seconds: float = 0.05, channels: int = 1) -> Path:
        """Write a sine as a WAV file. Another `hz` gives other content."""
        path = self.recordings / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        tone = 0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE_HZ)) / RATE_HZ)
        soundfile.write(path, np.tile(tone[:, None], (1, channels)), RATE_HZ, subtype="PCM_16")
        return path

    def write_noise(self, name: str, *, seed: int, seconds: float = 0.25) -> None:
        """Write white noise as a WAV file. Unlike tones, no two files have similar spectra."""
        path = self.recordings / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ))
        soundfile.write(path, noise, RATE_HZ, subtype="PCM_16")

    def write_tones(self, count: int) -> None:
        for i in range(count):
            self.write_tone(f"tone{i:03d}", hz=200 + i)

    def write_titled_tones(self, count: int) -> None:
        """Write tones and a metadata table with a title for each, and name the table in the YAML."""
        self.write_tones(count)
        table = self.folder / "metadata.csv"
        rows = [f"tone{i:03d}.wav,title {i}\n" for i in range(count)]
        table.write_text("path,title\n" + "".join(rows))
        self.write_yaml(source={"uri": str(self.recordings), "metadata": str(table), "settle_seconds": 0})

    def partition_of(self, path: str) -> str:
        """The partition of a recording, from the stored catalog."""
        config = self.config()
        partitions = existing_catalog(StorageResource().output(config)).partitions(["path"])
        return next(name for name, rows in partitions if path in rows["path"])

    def files(self) -> dict[str, bytes]:
        """Bytes by path of all output files that contain no times and belong to the format."""
        return {
            str(path.relative_to(self.output)): path.read_bytes()
            for path in sorted(self.output.rglob("*"))
            if path.is_file() and path.parent.name not in {"parts", ".journal"} and path.name != "catalog.jsonl"
        }

    def sizes(self) -> dict[str, int]:
        return json.loads((self.output / "audio/sizes.json").read_bytes())


def assets_of(*configs: DatasetConfig, resources: dict[str, object] | None = None) -> dg.Definitions:
    """Assets and checks of datasets, without sensors. The given resources replace the default ones."""
    datasets = [ProjectDataset.named(config) for config in configs]
    return build_assets(datasets, {**default_resources(Path()), **(resources or {})})


class Graph:
    """A project's asset graph with an in-memory instance: no daemon, and no files except the output's."""

    def __init__(
        self, project: Project, instance: dg.DagsterInstance | None = None, resources: dict[str, object] | None = None
    ) -> None:
        self.project = project
        self.instance = instance or memory_instance()
        self.resources = resources
        self.reload()

    def reload(self) -> None:
        """Load the definitions again, as a code server does after a change of the YAML."""
        self.config = self.project.config()
        self.definitions = assets_of(self.config, resources=self.resources)
        self.job = self.definitions.resolve_implicit_global_asset_job_def()

    @property
    def keys(self) -> DatasetKeys:
        return self.project.keys

    @property
    def partitions(self) -> list[str]:
        return self.config.partitioning().partition_keys()

    @property
    def audio(self) -> Storage:
        return StorageResource().audio(self.config)

    @property
    def latents(self) -> Storage:
        """The folder of the latents `mel`."""
        return StorageResource().latents(self.config, "mel")

    def run(self, key: dg.AssetKey, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """Materialize one asset and run its checks."""
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
        """Materialize what the UI shows as not fresh, up to the audio index."""
        assert self.scan().success
        for partition in self.stale_partitions():
            assert self.run(self.keys.audio_shards, partition).success
        assert self.run(self.keys.sizes_index).success

    def stale_partitions(self) -> list[str]:
        """Partitions of the audio shards that the UI shows as missing or stale."""
        return [name for name in self.partitions if self.status(self.keys.audio_shards, name) != "FRESH"]

    def status(self, key: dg.AssetKey, partition: str | None = None) -> str:
        """The status in the UI: MISSING, STALE or FRESH."""
        graph = self.definitions.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        return resolver.get_status(key, partition).value


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    """Names of the failed checks."""
    return {evaluation.check_name for evaluation in result.get_asset_check_evaluations() if not evaluation.passed}


def touch(path: Path, seconds: float = 100.0) -> None:
    """Change the modification time of a file but not its content."""
    status = path.stat()
    os.utime(path, (status.st_atime, status.st_mtime + seconds))


def written_long_ago(folder: Path) -> None:
    """Let the files below a folder be a minute older than they are, so that a scan does not wait for more of them."""
    for path in folder.rglob("*"):
        if path.is_file():
            touch(path, -60)
