"""Crops of two seconds of recordings of ten minutes: the loader against `soundfile.seek`, in CPU time.

    python benchmarks/crops.py [--json PATH] [--rounds N]

Writes a tar of two recordings for each codec (44.1 kHz, stereo; Opus 48 kHz) and the same recordings as files. Each
round takes 200 random places of each codec in turns: with `soundfile` (open, seek, read), with the library's
`decode_part` on an open file, without and with seek points, and with a loader that crops at random from the tar, which
`headrace index` has indexed. Milliseconds of CPU of the process for a crop, medians of the rounds, the ratio to
`soundfile`; and the reads for each crop, which would be requests of a store, and the bytes that they give for each
byte that a crop has on average. Of the points: bytes in the index, and milliseconds of CPU to find them, for each
second of audio.
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
from headrace.audio import MemberFile, PartFacts, decode_part, seek_points
from headrace.audio.decode import decode
from headrace.upkeep.tar_indexes import index_tars

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
        self.reads: dict[str, list[int]] = {"parts": [], "points": []}
        (folder / extension).mkdir()
        with tarfile.open(folder / extension / "a.tar", "w") as tar:
            for path in self.paths:
                tar.add(path, path.name)
        index_tars(str(folder / extension), num_threads=2)
        self.files = [os.open(path, os.O_RDONLY) for path in self.paths]
        self.facts = [PartFacts(num_frames, self.rate_hz, 2) for num_frames in self.num_frames]
        begin = time.process_time()
        self.found = [seek_points(self.opened(number, [], 1 << 20), facts) for number, facts in enumerate(self.facts)]
        self.found_ms = (time.process_time() - begin) * 1000
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

    def opened(self, number: int, reads: list[int], block_bytes: int) -> MemberFile:
        """A recording whose reads are noted."""

        def read(start: int, stop: int) -> memoryview:
            reads.append(stop - start)
            return memoryview(os.pread(self.files[number], stop - start, start))

        return MemberFile(read, os.fstat(self.files[number]).st_size, block_bytes)

    def parts(self, places: list[tuple[int, int]]) -> None:
        """Read crops by a search."""
        for number, place in places:
            file = self.opened(number, self.reads["parts"], 16 << 10)
            assert decode_part(file, self.facts[number], np.empty((2, self.count), np.float32), place)

    def points(self, places: list[tuple[int, int]]) -> None:
        """Read crops by seek points."""
        for number, place in places:
            file, out = self.opened(number, self.reads["points"], 1 << 10), np.empty((2, self.count), np.float32)
            assert decode_part(file, self.facts[number], out, place, self.found[number])

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
    print(f"| codec | soundfile ms | search | points | loader | ratios | reads | bytes |\n{'|---' * 8}|")
    for extension in CODECS:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), extension)
            random = np.random.default_rng(0)
            found: dict[str, list[float]] = {"soundfile": [], "parts": [], "points": [], "loader": []}
            for _ in range(options.rounds):
                numbers = random.integers(0, 2, PLACES).tolist()
                places = [(n, int(random.integers(0, case.num_frames[n] - case.count))) for n in numbers]
                for name, values in found.items():
                    values.append(cpu_ms(partial(getattr(case, name), places)))
            medians = {name: statistics.median(values) for name, values in found.items()}
            size = sum(path.stat().st_size for path in case.paths) / sum(case.num_frames) * case.count
            crops = options.rounds * PLACES
            reads = {name: len(spans) / crops for name, spans in case.reads.items()}
            shares = {name: sum(spans) / crops / size for name, spans in case.reads.items()}
            points = [found.places for found in case.found if found]
        ratios = [medians[name] / medians["soundfile"] for name in ("parts", "points", "loader")]
        results[extension] = {
            "cpu_ms": found, "medians": medians, "ratios": ratios, "reads": reads, "read_of_crop": shares,
            "index_bytes_per_second": 4 * sum(map(len, points)) / (2 * SECONDS),
            "found_ms_per_second": case.found_ms / (2 * SECONDS),
        }  # fmt: skip
        cells = " | ".join(f"{value:.2f}" for value in medians.values())
        pairs = [", ".join(f"{value:.2f}" for value in values) for values in (ratios, reads.values(), shares.values())]
        print(f"| {extension} | {cells} | {' | '.join(pairs)} |", flush=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
