"""Common uses of a loader, each beside webdataset and torch's DataLoader over files, in an expert's hands.

    python benchmarks/uses.py [--rounds 3] [--uses mp3 mel …] [--folder DIR] [--json PATH]

Uses (`USES`): MP3 and Opus as they are; a transform in torch (44.1 to 16 kHz, log-mel); captions to tokens, by sample
and by batch; views of 1% and half of the samples (webdataset reads all and drops, files are chosen from a table in
memory); two audio fields; spans of recordings (cut in advance in tars; by `soundfile.seek` in files), windows and
random crops of recordings of minutes; one rank, and two ranks of one machine under torch's gloo.

Synthetic sounds, all loaders with the same decoders: dr_flac for FLAC, libsndfile for all else. Each reading is one
epoch in a fresh process, page cache warm, all uses, loaders and settings of worker processes in turn, `--rounds` times.
Measured are seconds from the first call to the last batch, without imports, and CPU seconds of the process and its
workers. All loaders must deliver the same number of samples and of frames.

The better setting of worker processes counts, for ours as for the others, by the clock and by CPU time each. Ratios are
between readings of one round: other programs on the machine change samples/s, and CPU time least. Prints a table and
writes JSON.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks.peers` and `tests` from the checkout
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before torch is imported

import torch  # noqa: E402

from benchmarks import _uses_readers as readers  # noqa: E402
from benchmarks._uses_corpus import VIEWS, corpora  # noqa: E402
from benchmarks._uses_readers import OURS, Use  # noqa: E402
from benchmarks.peers.measure import bring_memory_back  # noqa: E402

WINDOW_SECONDS, CROP_SECONDS, NUM_CROPS = 5, 2, 400


def view(name: str) -> Use:
    """A share of the samples, by a score."""
    return Use("short", options={"view": name}, keep=lambda row: row["score"] < VIEWS[name])


def cut_spans(root: Path) -> list[readers.Part]:
    """The spans of the table, in the recordings."""
    rows = json.loads((root / "spans/table.json").read_text()).values()
    return [(root / "long-flac/files" / row["file"], row["start"], row["count"]) for row in rows]


def cut_crops(root: Path) -> list[readers.Part]:
    """Crops at random places."""
    paths = sorted((root / "long-mp3/files").iterdir()) * NUM_CROPS
    return [(path, -1, CROP_SECONDS * readers.RATE_HZ) for path in paths[:NUM_CROPS]]


USES = {
    "mp3": Use("mp3", ("mp3",)),
    "opus": Use("opus", ("opus",)),
    "mel": Use(
        "flac",
        options={"transform": readers.with_mel},
        length=lambda batch: sum(map(bool, batch["keys"])) * batch["mel"].shape[2],
        made=lambda sample: (readers.mel(readers.audio(sample["flac"])),),
        num_workers=(0, 2, 4),
        ours=(0, 2, 4),
    ),
    "tokens by sample": Use(
        "short",
        options={
            "transform": lambda sample: sample | {"tokens": readers.tokens(sample["metadata"]["caption"])},
            "pad": {"tokens": 0},
        },
        length=lambda batch: int(batch["tokens_length"].sum()),
        made=lambda sample: (readers.tokens(readers.caption(sample)), readers.audio(sample["flac"])),
        ours=(0, 2),
    ),
    "tokens by batch": Use(
        "short",
        options={"batch_transform": readers.with_tokens},
        length=lambda batch: int(batch["tokens_length"].sum()),
        made=lambda sample: (readers.caption(sample), readers.audio(sample["flac"])),
        collate=readers.collated_captions,
    ),
    "view of 1%": view("one"),
    "view of 50%": view("half"),
    "two fields": Use("fields", ("mix.flac", "vocals.flac")),
    "spans": Use("spans", parts=cut_spans),
    "windows": Use(
        "long-flac",
        options={"window_seconds": WINDOW_SECONDS},
        made=lambda sample: (sample["window"],),
        windows=readers.windows(WINDOW_SECONDS),
        parts=lambda root: readers.places(root / "long-flac/files", WINDOW_SECONDS),
    ),
    "crops of MP3": Use(
        "long-mp3",
        options={"crop_seconds": CROP_SECONDS, "epoch_size": NUM_CROPS},
        parts=cut_crops,
        loaders=(OURS, readers.FILES),
    ),
    "one rank": Use("flac"),
    "two ranks": Use("flac", num_workers=(0, 1), num_ranks=2),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One epoch; of several ranks, the samples and CPU time of all, and the time of the slowest."""

    use: str
    loader: str
    num_workers: int
    num_samples: int
    num_frames: int
    seconds: float
    first_seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Task:
    """One rank of a reading, which runs in a process of its own."""

    use: str
    loader: str
    num_workers: int
    root: Path
    rank: int
    meeting: str

    def run(self, said: Connection) -> None:
        """Read, and send samples, frames, and seconds: all, to the first batch, of CPU."""
        use = USES[self.use]
        torch.set_num_threads(1)
        bring_memory_back()
        if use.num_ranks > 1:
            size = str(use.num_ranks)
            os.environ |= {"RANK": str(self.rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{self.meeting}", rank=self.rank, world_size=use.num_ranks
            )
            torch.distributed.barrier()
        begun, cpu = time.perf_counter(), sum(os.times()[:4])
        first, counts = 0.0, []
        for found in use.read(self.loader, self.root, self.num_workers):
            first = first or time.perf_counter() - begun
            counts.append(found)
        seconds, cpu = time.perf_counter() - begun, sum(os.times()[:4]) - cpu
        said.send((*map(sum, zip(*counts, strict=True)), seconds, first, cpu))
        if use.num_ranks > 1:
            torch.distributed.destroy_process_group()


def read_apart(name: str, loader: str, num_workers: int, root: Path) -> Reading:
    """One reading, in processes that are forked from this one, which has imported everything and started no thread."""
    fork, pipes, processes = multiprocessing.get_context("fork"), [], []
    with tempfile.TemporaryDirectory() as meeting:
        for rank in range(USES[name].num_ranks):
            here, there = fork.Pipe()
            task = Task(name, loader, num_workers, root, rank, f"{meeting}/store")
            processes.append(fork.Process(target=task.run, args=(there,)))
            processes[-1].start()
            there.close()
            pipes.append(here)
        samples, frames, seconds, firsts, cpus = zip(*[pipe.recv() for pipe in pipes], strict=True)
        for process in processes:
            process.join()
    return Reading(name, loader, num_workers, sum(samples), sum(frames), max(seconds), max(firsts), sum(cpus))


@dataclass(slots=True)
class Rounds:
    """Readings of one use, by loader and number of worker processes, in the order of the rounds."""

    found: dict[tuple[str, int], list[Reading]] = field(default_factory=dict)

    def best(self, loader: str, measure: str) -> tuple[int, list[float]]:
        """The setting with the least median of `seconds` or `cpu_seconds`, and its values for a sample."""
        values = {
            n: [getattr(one, measure) / one.num_samples for one in readings]
            for (name, n), readings in self.found.items()
            if name == loader
        }
        return min(values.items(), key=lambda item: statistics.median(item[1]))

    def row(self, use: str, loader: str) -> str:
        """A line of the table."""
        (workers, wall), (_, cpu) = (self.best(loader, measure) for measure in ("seconds", "cpu_seconds"))
        (_, own_wall), (_, own_cpu) = (self.best(OURS, measure) for measure in ("seconds", "cpu_seconds"))
        first = statistics.median(one.first_seconds for one in self.found[loader, workers])
        cells = [use, f"{loader} ({workers})", f"{1 / statistics.median(wall):,.0f}", ratios(wall, own_wall)]
        cells += [f"{statistics.median(cpu) * 1000:.2f}", ratios(cpu, own_cpu), f"{first:.2f}"]
        return f"| {' | '.join(cells)} |"


def ratios(theirs: Sequence[float], own: Sequence[float]) -> str:
    """Median and quartiles of the ratios of the rounds."""
    found = [one / other for one, other in zip(theirs, own, strict=True)]
    if len(found) < 2:
        return f"{found[0]:.2f}"
    low, middle, high = statistics.quantiles(found, method="inclusive")
    return f"{middle:.2f} ({low:.2f}, {high:.2f})"


def show(readings: list[Reading]) -> None:
    """Print a table; ratios are a loader's time over ours."""
    print(
        "| use | loader (workers) | samples/s | time, of ours | CPU ms a sample | CPU time, of ours | first batch, s |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, use in USES.items():
        rounds = Rounds()
        for one in (one for one in readings if one.use == name):
            rounds.found.setdefault((one.loader, one.num_workers), []).append(one)
        for loader in use.loaders if rounds.found else ():
            print(rounds.row(name, loader))


def check(name: str, readings: list[Reading]) -> None:
    """Stop unless all loaders delivered the same."""
    delivered = {(one.num_samples, one.num_frames) for one in readings if one.use == name}
    if len(delivered) > 1:
        sys.exit(f"{name}: the loaders delivered {sorted(delivered)} samples and frames")


def main() -> None:
    """Make the corpora, read everything in turn, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--uses", nargs="*", choices=list(USES), default=list(USES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "headrace-bench-uses")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/uses.json")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
    root, readings = corpora(options.folder), []
    for path in (path for path in root.rglob("*") if path.is_file()):
        path.read_bytes()
    readers.tokenizer()
    for number in range(options.rounds):
        for name in options.uses:
            for loader, num_workers in USES[name].settings():
                readings.append(read_apart(name, loader, num_workers, root))
                rate = readings[-1].num_samples / readings[-1].seconds
                print(
                    f"{number + 1}: {name}, {loader} {num_workers}: {rate:.0f} samples/s", file=sys.stderr, flush=True
                )
            check(name, readings)
        about = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
        about |= {"torch": torch.__version__, "rounds": number + 1}
        options.json.write_text(json.dumps(about | {"readings": [asdict(one) for one in readings]}, indent=1) + "\n")
    show(readings)


if __name__ == "__main__":
    main()
