"""Crops of two seconds of recordings of ten minutes: the loader against `soundfile.seek`, in CPU time.

    python benchmarks/crops.py [--json PATH] [--rounds N]

Writes a tar of two recordings for each codec (44.1 kHz, stereo; Opus 48 kHz) and the same recordings as files. Each
round takes 200 random places of each codec in turns: with `soundfile` (open, seek, read), with the library's
`decode_part` on an open file, and with a loader that crops at random. Milliseconds of CPU of the process for a crop,
medians of the rounds, the ratio to `soundfile`, and the bytes that were read for each byte that a crop has on average.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import soundfile as sf

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace import StreamingDataLoader, StreamingDataset
from headrace.audio import MemberFile, PartFacts, decode_part
from headrace.audio.decode import decode

SECONDS, CROP_SECONDS, PLACES = 600, 2, 200
CODECS = {
    "wav": ("WAV", "PCM_16", 44_100),
    "flac": ("FLAC", "PCM_16", 44_100),
    "mp3": ("MP3", "MPEG_LAYER_III", 44_100),
    "ogg": ("OGG", "VORBIS", 44_100),
    "opus": ("OGG", "OPUS", 48_000),
}


def write(path: Path, container: str, subtype: str, rate_hz: int, seed: int) -> None:
    """A recording of tones whose loudness changes, and noise."""
    random = np.random.default_rng(seed)
    tones = random.uniform(80, 2000, (6, 2))
    with sf.SoundFile(path, "w", rate_hz, 2, format=container, subtype=subtype) as file:
        for second in range(SECONDS):
            times = second + np.arange(rate_hz)[:, None] / rate_hz
            sound = sum(0.08 * np.sin(2 * np.pi * tone * times) for tone in tones)
            loudness = 0.55 + 0.45 * np.sin(2 * np.pi * times / 17)
            file.write(sound * loudness + 0.02 * random.standard_normal((rate_hz, 2)))


class Case:
    """One codec: two recordings as files, and in a tar."""

    def __init__(self, folder: Path, extension: str) -> None:
        container, subtype, self.rate_hz = CODECS[extension]
        self.count = CROP_SECONDS * self.rate_hz
        self.paths = [folder / f"{extension}{number}.{extension}" for number in range(2)]
        for number, path in enumerate(self.paths):
            write(path, container, subtype, self.rate_hz, number)
        self.num_frames = [decode(path.read_bytes())[0].shape[1] for path in self.paths]
        self.num_read = 0
        (folder / extension).mkdir()
        with tarfile.open(folder / extension / "a.tar", "w") as tar:
            for path in self.paths:
                tar.add(path, path.name)
        self.dataset = StreamingDataset(
            remote=str(folder / extension), local=str(folder / "cache"), batch_size=8, crop_seconds=CROP_SECONDS,
            output="numpy", shuffle=True, epoch_size=PLACES,
        )  # fmt: skip

    def soundfile(self, places: list[tuple[int, int]]) -> None:
        """Read crops with soundfile."""
        for number, place in places:
            with sf.SoundFile(self.paths[number]) as file:
                file.seek(place)
                file.read(self.count, dtype="float32", always_2d=True)

    def parts(self, places: list[tuple[int, int]]) -> None:
        """Read crops with `decode_part`."""
        files = [os.open(path, os.O_RDONLY) for path in self.paths]

        def read(number: int, start: int, stop: int) -> memoryview:
            self.num_read += stop - start
            return memoryview(os.pread(files[number], stop - start, start))

        for number, place in places:
            out = np.empty((2, self.count), np.float32)
            size = os.fstat(files[number]).st_size
            file = MemberFile(lambda start, stop, number=number: read(number, start, stop), size, 16 << 10)  # type: ignore[misc]
            assert decode_part(file, PartFacts(self.num_frames[number], self.rate_hz, 2), out, place)
        for file_number in files:
            os.close(file_number)

    def loader(self, places: list[tuple[int, int]]) -> None:
        """Read as many crops with a loader."""
        rows = sum(len(batch["keys"]) for batch in StreamingDataLoader(self.dataset))
        assert rows == len(places)


def cpu_ms(task: Callable[[], None]) -> float:
    """Milliseconds of CPU of the process for one of the crops of a task."""
    begin = time.process_time()
    task()
    return (time.process_time() - begin) * 1000 / PLACES


def main() -> None:
    """Make, measure in turns, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/crops.json"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results: dict[str, object] = {"python": platform.python_version(), "libsndfile": sf.__libsndfile_version__}
    print("| codec | soundfile ms | decode_part | loader | ratios | bytes read |\n|---|---|---|---|---|---|")
    for extension in CODECS:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), extension)
            random = np.random.default_rng(0)
            found: dict[str, list[float]] = {"soundfile": [], "parts": [], "loader": []}
            for _ in range(options.rounds):
                numbers = random.integers(0, 2, PLACES).tolist()
                places = [(n, int(random.integers(0, case.num_frames[n] - case.count))) for n in numbers]
                for name, values in found.items():
                    values.append(cpu_ms(partial(getattr(case, name), places)))
            medians = {name: statistics.median(values) for name, values in found.items()}
            sizes = sum(path.stat().st_size for path in case.paths) / sum(case.num_frames) * case.count
            share = case.num_read / (options.rounds * PLACES) / sizes
        ratios = [medians[name] / medians["soundfile"] for name in ("parts", "loader")]
        results[extension] = {"cpu_ms": found, "medians": medians, "ratios": ratios, "read_of_crop": share}
        cells = " | ".join(f"{value:.2f}" for value in medians.values())
        print(f"| {extension} | {cells} | {ratios[0]:.2f}, {ratios[1]:.2f} | {share:.2f} |", flush=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
