"""Columns and a view over many tars of others: 2,000 sparse tars of 1,000 samples of 250 kB, which have 12 GB on disk.

    python benchmarks/tar_sets.py [--tars 2000] [--samples 1000] [--whole] [--folder DIR] [--json PATH]

A sample is the head of a FLAC file, behind which nothing is written (`--whole`: whole FLAC of noise), and
JSON of at most 1% of its length. Measured,
each in a process of its own, are: `headrace index --columns --into`, with the bytes that it reads as a share of those
of the tars, its CPU time and memory; the same again, with nothing to do; `headrace view` that keeps 1% of the samples;
opening the data set with that view, three times. Then the first global batches of 1, 3 and 8 ranks are compared, and
the times of the tars' last changes with those before.
"""

import argparse
import io
import json
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from _process import bytes_read, peak_mb

from headrace import StreamingDataLoader, StreamingDataset
from headrace.format.tars.tar import member_header
from headrace.streaming.world import World
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view

_MEMBER_BYTES, _RATE_HZ, _FRAMES, _HEAD = 250_000, 16_000, 160_000, 400
_NOISE_FRAMES = 126_000
_BLOCK, _BATCH, _NUM_BATCHES = 512, 24, 20


def main() -> None:
    """Write the tars, measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tars", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--whole", action="store_true", help="write whole FLAC files")
    parser.add_argument("--folder", help="where the tars are written for a while")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/tar_sets.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-tars-", dir=given.folder) as name:
        results = measured(Path(name), given.tars, given.samples, is_whole=given.whole)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    results = {"machine": machine, "tars": given.tars, "samples": given.samples} | results
    print(json.dumps(results, indent=1))
    given.json.write_text(json.dumps(results, indent=1) + "\n")


def measured(folder: Path, num_tars: int, per_tar: int, *, is_whole: bool) -> dict[str, Any]:
    """The figures."""
    tars, into = folder / "tars", folder / "into"
    total = write(tars, num_tars, per_tar, is_whole=is_whole)
    before = {path.name: path.stat().st_mtime_ns for path in tars.iterdir()}
    found: dict[str, Any] = {"gigabytes": round(total / 1e9, 1), "load": round(os.getloadavg()[0], 1)}
    for step in ("index", "index_again"):
        figures = apart(index, str(tars), str(into))
        found[step] = figures | {"share_of_bytes": round(figures.pop("bytes_read") / total, 6)}
    found["view"] = apart(view, str(into))
    found["opening"] = [apart(opening, str(into)) for _ in range(3)]
    orders = [apart(order, str(into), size)["of_value"] for size in (1, 3, 8)]
    found["equal_on_1_3_and_8_ranks"] = orders[0] == orders[1] == orders[2]
    found["tars_as_they_were"] = before == {path.name: path.stat().st_mtime_ns for path in tars.iterdir()}
    return found


def write(folder: Path, num_tars: int, per_tar: int, *, is_whole: bool = False) -> int:
    """Write the tars: only heads of members and JSON take room on the disk. Returns the bytes of all of them."""
    folder.mkdir()
    head = whole_flac() if is_whole else flac_head()
    size = max(len(head), _MEMBER_BYTES)
    for tar in range(num_tars):
        with (folder / f"train-{tar:05}.tar").open("wb") as file:
            for number in range(tar * per_tar, (tar + 1) * per_tar):
                content = json.dumps({"number": number, "snr": number % 100, "lang": "de" if number % 3 else "en"})
                file.write(member_header(f"s{number:07}.flac", size) + head)
                file.seek(-(-size // _BLOCK) * _BLOCK - len(head), io.SEEK_CUR)
                file.write(member_header(f"s{number:07}.json", len(content)) + content.encode().ljust(_BLOCK, b"\0"))
            file.truncate(file.tell() + 2 * _BLOCK)
    return sum(path.stat().st_size for path in folder.iterdir())


def flac_head() -> bytes:
    """The first bytes of a FLAC file, which say how long it is."""
    blob = io.BytesIO()
    soundfile.write(blob, np.zeros(_FRAMES, np.int16), _RATE_HZ, format="FLAC")
    return blob.getvalue()[:_HEAD]


def whole_flac() -> bytes:
    """A FLAC file of noise, of 250 kB."""
    blob, noise = io.BytesIO(), np.random.default_rng(0).integers(-30_000, 30_000, _NOISE_FRAMES)
    soundfile.write(blob, noise.astype(np.int16), _RATE_HZ, format="FLAC")
    return blob.getvalue()


def apart(step: Callable[..., Any], *words: object) -> dict[str, Any]:
    """Figures of a step in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_figures, args=(theirs, step, words))
    process.start()
    found: dict[str, Any] = ours.recv()
    process.join()
    return found


def _figures(answer: Any, step: Callable[..., Any], words: tuple[object, ...]) -> None:  # noqa: ANN401 - a connection
    used, read, peak, begun = time.process_time(), bytes_read(), peak_mb(), time.perf_counter()
    value = step(*words)
    figures = {
        "seconds": round(time.perf_counter() - begun, 3),
        "cpu_seconds": round(time.process_time() - used, 2),
        "bytes_read": bytes_read() - read,
        "growth_mb": round(peak_mb() - peak, 1),
        "of_value": value,
    }
    answer.send(figures)


def index(tars: str, into: str) -> int:
    """Index the tars with columns. Returns their number."""
    return len(index_tars(tars, num_threads=2, columns=True, into=into))


def view(into: str) -> int:
    """Make a view that keeps 1% of the samples, which are in all tars. Returns how many."""
    return make_view(into, "few", "snr = 7")[0].snapshot.num_chosen


def opening(into: str) -> int:
    """Open the data set. Returns its samples."""
    return StreamingDataset(remote=into, view="few", batch_size=_BATCH, shuffle=True).size


def order(into: str, num_ranks: int) -> list[list[str]]:
    """Keys of the first global batches, each sorted; only JSON is read."""
    wanted = {"remote": into, "view": "few", "shuffle": True, "fields": ["metadata"], "batch_size": _BATCH // num_ranks}
    ranks = [StreamingDataset(**wanted, world=World(rank, num_ranks)) for rank in range(num_ranks)]
    batches = zip(*map(StreamingDataLoader, ranks), strict=True)
    return [sorted(key for batch in one for key in batch["keys"]) for one in islice(batches, _NUM_BATCHES)]


if __name__ == "__main__":
    main()
