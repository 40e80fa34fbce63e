"""Latent builds in extreme cases: killed at any moment, and a recording of three hours."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoding.plans import EncodingOptions
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, tone, write_partition

_ENDLESS_BUILD = """
import sys, time
from headrace import encoders
from headrace.assemble import update
from headrace.encoding.plans import EncodingOptions
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.stores.storage import open_storage
update.commit_manifest = lambda *_: time.sleep(3600)  # the test kills this process
settings = LatentSettings(encoders.fingerprint("crepe", {}), "float16")
build_latent_partition(
    "train-0000", settings, lambda: [encoders.load("crepe", {})], open_storage(sys.argv[1]), open_storage(sys.argv[2]),
    options=EncodingOptions(batch_seconds=0.2),
)
"""


def _tars(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar"))}


@pytest.mark.slow
def test_a_latent_build_killed_at_any_moment_is_finished_by_the_next(tmp_path: Path) -> None:
    """The bytes equal those of an undisturbed build, finished shards are reused, and readers see no partial files."""
    audio = LocalStorage(tmp_path / "audio")
    write_partition(audio, [{f"s{i}k{j}": noise(24_000, 10 * i + j) for j in range(4)} for i in range(12)])
    settings = LatentSettings(encoders.fingerprint("crepe", {}), "float16")

    def build(folder: Path) -> tuple[str, ...]:
        load = [encoders.load("crepe", {})]
        options = EncodingOptions(batch_seconds=0.2)
        return build_latent_partition(
            "train-0000", settings, lambda: load, audio, LocalStorage(folder), options=options
        ).written

    build(tmp_path / "undisturbed")
    killed = tmp_path / "killed"
    for seed in range(4):
        enough = min(12, len(list(killed.glob("*.idx"))) + 2)
        process = subprocess.Popen([sys.executable, "-c", _ENDLESS_BUILD, str(audio.root), str(killed)])
        while len(list(killed.glob("*.idx"))) < enough and process.poll() is None:
            time.sleep(0.005)
        time.sleep(float(np.random.default_rng(seed).uniform(0, 0.05)))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert newest_manifest(LocalStorage(killed), "train-0000") is None
    finished = len(list(killed.glob("*.idx")))
    assert finished >= 8
    assert len(build(killed)) <= 12 - finished
    assert _tars(killed) == _tars(tmp_path / "undisturbed")


_MEASURE = """
import json, re, sys
from pathlib import Path
from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.stores.storage import open_storage
def peak_mebibytes():  # not getrusage: it inherits the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

mel = {"num_mels": 16, "hop_seconds": 0.02}
encoder = encoders.load("log_mel", mel)
before = peak_mebibytes()
settings = LatentSettings(encoder.fingerprint, "float16")
audio, storage = open_storage(sys.argv[1]), open_storage(sys.argv[2])
build = build_latent_partition("train-0000", settings, lambda: [encoder], audio, storage)
made = build.manifest.manifest
print(json.dumps([made.num_samples, made.shards[0].num_frames, peak_mebibytes() - before]))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_recording_of_three_hours_is_encoded_in_bounded_memory(tmp_path: Path) -> None:
    """Windows are read by seeking. The whole recording (950 MB as floats) is never in memory."""
    audio = LocalStorage(tmp_path / "audio")
    rate_hz, seconds = 22_050, 3 * 3600
    long = np.tile(tone(10, 441.0, rate_hz), seconds // 10)
    write_partition(audio, [{"long": long, "short": noise(rate_hz // 200, 0)}], sample_rate_hz=rate_hz)
    del long
    run = [sys.executable, "-c", _MEASURE, str(audio.root), str(tmp_path / "latents")]
    printed = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    num_samples, num_latent, mebibytes = json.loads(printed)
    assert num_samples == 2
    assert num_latent == seconds * 50 + 1 + 1
    assert mebibytes < 400
