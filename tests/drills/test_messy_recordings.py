"""Recordings of every format, rate and number of channels, under odd names: each becomes a sample of the same sound."""

import io
import shutil

import numpy as np
import soundfile

from headrace import StreamingDataset
from tests.support.drills.apart import apart
from tests.support.drills.subjects import yaml_of
from tests.support.drills.works import build
from tests.support.projects import Project
from tests.support.sounds import FORMATS, file_of, music, rate_of

EXACT = {"PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "ALAC_16", "ALAC_24"}
"""Subtypes of integers that FLAC can hold."""
RATES_HZ = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 96_000)
FIXED_RATE = {"OPUS", "MPEG_LAYER_III", "ALAC_16", "ALAC_24"}
NAMES = (
    "take {n}",
    "Käse-{n}",
    "Ka\u0308se-{n}",
    "日本語{n}",
    "a.b.{n}",
    "x..{n}",
    "-{n}",
    "UP {n}",
    "e\u0301 ({n})",
    "q'{n}&",
)
FOLDERS = ("", "a/b c/", "Ünï/", "deep/er/and.er/")
LENGTHS = (1, 2, 479, 4_096, 4_097, 20_001, 44_100)


def test_messy_recordings(tmp_path, drill):
    def one_round(chance):
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        project = Project(tmp_path / "p")
        project.recordings.mkdir(parents=True)
        project.write_yaml(shards={"samples_per_shard": 8, "partitions": {"train": 2, "test": 1}})
        wanted = {}
        for number in range(30):
            container, subtype = chance.choice(FORMATS)
            rate_hz = rate_of(subtype) if subtype in FIXED_RATE else chance.choice(RATES_HZ)
            blob = file_of(
                music(chance.choice(LENGTHS), chance.choice([1, 2]), rate_hz, number), container, subtype, rate_hz
            )
            suffix = chance.choice([container.lower(), container.upper()])
            path = f"{chance.choice(FOLDERS)}{chance.choice(NAMES).format(n=number)}.{suffix}"
            target = project.recordings / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(blob)
            wanted[path] = container, subtype, rate_hz, blob
        apart(build, yaml_of(project), seconds=240).well()
        dataset = StreamingDataset(remote=str(project.output / "audio"))
        samples = [dataset.get_item(position) for position in range(dataset.size)]
        seen = {sample["metadata"]["headrace"]["source"]: sample for sample in samples}
        assert len(seen) == len(samples)
        assert seen.keys() == wanted.keys()
        for path, (container, subtype, rate_hz, blob) in wanted.items():
            sound = soundfile.read(io.BytesIO(blob), dtype="float64", always_2d=True)[0].T
            found = seen[path]["audio"].numpy().astype(np.float64)
            assert (found.shape, seen[path]["sample_rate"]) == (sound.shape, rate_hz), path
            most = 0.0 if subtype in EXACT else 0.5 / 2**15
            assert np.abs(found - sound).max() <= most, path
            yield f"{container}: the same sound"

    drill.repeat(one_round, small=1, full=20)
