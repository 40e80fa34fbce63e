"""Writes tiny corpora, and configurations of data sets made of them, for tests of projects that use Headrace.

`exporters` has the contract of exporters (`ExporterContract`).
"""

from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from headrace.config.dataset import DatasetConfig, parse_config


def write_corpus(
    folder: Path, num_recordings: int = 4, *, seconds: float = 0.1, sample_rate_hz: int = 8000, num_channels: int = 1
) -> Path:
    """Write recordings of quiet white noise, the same bytes in each call, and a table of metadata.

    Args:
        folder: gets `recordings/rec000.wav` and so on, and `metadata.csv` with the columns `path` and `title`.
        num_recordings: how many.
        seconds: length of each.
        sample_rate_hz: rate of each.
        num_channels: channels of each.

    Returns:
        The folder of the recordings.
    """
    recordings = folder / "recordings"
    recordings.mkdir(parents=True, exist_ok=True)
    names = [f"rec{i:03d}.wav" for i in range(num_recordings)]
    for i, name in enumerate(names):
        noise = 0.1 * np.random.default_rng(i).standard_normal((round(seconds * sample_rate_hz), num_channels))
        soundfile.write(recordings / name, noise, sample_rate_hz, subtype="PCM_16")
    rows = [f"{name},recording {i}\n" for i, name in enumerate(names)]
    (folder / "metadata.csv").write_text("path,title\n" + "".join(rows), encoding="utf-8")
    return recordings


def tiny_config(folder: Path, name: str = "tiny", **sections: Any) -> DatasetConfig:  # noqa: ANN401 - as in the YAML
    """The configuration of a data set with the corpus of `write_corpus` in `folder` and its output in `folder/output`.

    It has two partitions with at most two samples in a shard, and its smoke test starts no processes.

    Args:
        folder: as for `write_corpus`.
        name: of the data set.
        sections: sections of the YAML, each instead of the one here: `latents=[{"name": "mel", …}]`.

    Raises:
        ConfigError: a section is unknown or invalid; the message lists every error.
    """
    content: dict[str, Any] = {
        "source": {
            "uri": str(folder / "recordings"),
            "metadata": str(folder / "metadata.csv"),
            "settle_seconds": 0,
        },
        "splits": {"train": 1.0},
        "shards": {"samples_per_shard": 2, "partitions": {"train": 2}},
        "loader": {"num_workers": 0},
        "output": {"uri": str(folder / "output")},
    }
    return parse_config({**content, **sections}, name, Path(f"{name}.yaml"))
