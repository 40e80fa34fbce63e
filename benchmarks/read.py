"""Reading shards into training batches, beside what the machine can do at best and what others reach.

    python benchmarks/read.py [--clips 1500] [--per-shard 50] [--rounds 3] [--peers-python PATH ...]

Every system reads the same 5 s clips (FLAC and JSON), then the same latents, shuffled, in padded batches of 32, in a
fresh process, page cache warm and memory at hand, with worker processes and without, one after the other, `--rounds`
times; ours, whose runs are short, before each of the others. Before that each is read once to its last sample, and what
arrived compared with ours. A run from which a virtual machine's host took over 3% of the cores is made again, up to
three times, and the one from which it took least counts. Reported: samples/s from the first call to the last batch
(construction included, imports not), the same after the first batch, seconds to the first batch, CPU seconds, the share
of the cores that the host took; and the peak memory of the process tree, from a run of its own. "limit" decodes bytes
in memory and builds no batch.
The better setting of a system counts. Read the ratios: absolute figures move with the machine.

A peer is read in two forms. *Documented* is what its documents show: FLAC by libsndfile, a `.pth` by `torch.load`.
*Best* is what its author would do: our FLAC decoder wherever it can take one, latents as arrays of its own format, its
index built.

`peers/__init__.py` says how each peer is used and how to make the environments that `--peers-python` names. Prints
tables and writes `results/read.json` with the hardware.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks.peers` and `tests` from the checkout

from benchmarks.peers.clips import BEST, DOCUMENTED  # noqa: E402
from benchmarks.peers.measure import Contents, Memory, Timing  # noqa: E402
from benchmarks.peers.systems import AUDIO, LATENTS, OURS, SYSTEMS, Entry  # noqa: E402
from benchmarks.peers.table import show  # noqa: E402

LONGEST_SECONDS = 600
MOST_STOLEN = 0.03
MOST_TRIES = 4
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(ROOT)}


def entries(pythons: list[str], num_workers: int, names: list[str]) -> Iterator[Entry]:
    """The systems to run, each with the first interpreter that has it."""
    for system in SYSTEMS:
        if names and system.name not in names:
            continue
        python = next((python for python in pythons if _has(python, system.package)), None)
        if python is None:
            print(f"{system.name}: left out, no interpreter has {system.package}")
            continue
        for count in system.worker_counts(num_workers):
            yield Entry(system, count, python)


def _has(python: str, package: str) -> bool:
    program = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    return not subprocess.run([python, "-I", "-c", program, package], capture_output=True, check=False).returncode


def run_apart(entry: Entry, corpus: Path, kind: str, *flags: str) -> dict[str, object]:
    """Run `measure.py` in a fresh process and return the reading that it prints."""
    words = [entry.system.module, str(corpus), kind, str(entry.num_workers), entry.form, *flags]
    done = subprocess.run(
        [entry.python, "-m", "benchmarks.peers.measure", *words],
        capture_output=True, text=True, env=os.environ | QUIET, cwd=ROOT, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{entry.label} on {kind}: {done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def timing(entry: Entry, corpus: Path, kind: str) -> Timing:
    """One reading: the first try from which the host took little, or that from which it took least."""
    tries: list[Timing] = []
    while len(tries) < MOST_TRIES and all(run.stolen_share > MOST_STOLEN for run in tries):
        tries.append(Timing(**run_apart(entry, corpus, kind)))  # type: ignore[arg-type]
    return min(tries, key=lambda run: run.stolen_share)


def memory(entry: Entry, corpus: Path, kind: str) -> Memory:
    """The peak memory of one reading."""
    return Memory(**run_apart(entry, corpus, kind, "--memory"))  # type: ignore[arg-type]


def in_turn(chosen: Collection[Entry]) -> Iterator[Entry]:
    """One round: each entry, and ours before every other one.

    A run of ours is over in a moment, so it could meet one mood of the machine alone; so often it meets all of them.
    """
    ours = next((entry for entry in chosen if entry.system == OURS), None)
    for entry in chosen:
        if ours is not None:
            yield ours
        if entry != ours:
            yield entry


def check(chosen: Iterable[Entry], corpus: Path, kind: str) -> None:
    """Stop unless every loader delivers what ours does."""
    expected = None
    loaders = (entry for entry in chosen if not entry.system.is_limit)
    for entry in sorted(loaders, key=lambda entry: entry.system != OURS):
        found = Contents(**run_apart(entry, corpus, kind, "--check"))  # type: ignore[arg-type]
        expected = expected or found
        if found != expected:
            sys.exit(f"{entry.label} on {kind}: expected {expected}, as {OURS.name} gives, found {found}")


def hardware() -> dict[str, object]:
    """Facts about the machine and the software that the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line for line in lines if line.startswith("model name")), "").partition(": ")[2]
    cores = len(os.sched_getaffinity(0))
    facts = {"cpu": model, "cores": cores, "python": platform.python_version(), "load": os.getloadavg()}
    return facts | {"decoder": decoder()}


def decoder() -> str:
    """Ours, and whether `make decoder` compiled it: wheels for everybody are tagged `manylinux`."""
    miniaudio = distribution("miniaudio")
    made = "compiled here" if "-linux_" in (miniaudio.read_text("WHEEL") or "") else "from its wheel"
    return f"miniaudio {miniaudio.version}, {made}"


def write(
    path: Path,
    corpus: dict[str, int],
    timings: dict[str, dict[Entry, list[Timing]]],
    memories: dict[str, dict[Entry, Memory]],
) -> None:
    """All runs so far, as JSON with the hardware."""
    readings = [
        {"system": entry.system.name, "kind": kind, "form": entry.form, "num_workers": entry.num_workers}
        | asdict(run)
        | (asdict(memories[kind][entry]) if entry in memories[kind] else {})
        for kind, chosen in timings.items()
        for entry, runs in chosen.items()
        for run in runs
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hardware": hardware()} | corpus | {"readings": readings}, indent=1) + "\n")


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1500)
    parser.add_argument("--per-shard", type=int, default=50, help="samples a shard; 250 of latents are 64 MB")
    parser.add_argument("--forms", nargs="*", default=[BEST, DOCUMENTED], help="of the peers: best, documented")
    parser.add_argument("--rounds", type=int, default=3, help="0: only convert, and compare what arrives")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/headrace-bench-read"))
    parser.add_argument("--peers-python", nargs="*", default=[], help="interpreters of the peers' environments")
    parser.add_argument("--systems", nargs="*", default=[], help="only these, by name")
    parser.add_argument("--kinds", nargs="*", default=[AUDIO, LATENTS])
    parser.add_argument("--no-memory", action="store_true", help="skip the pass that watches the memory")
    parser.add_argument("--no-check", action="store_true", help="skip the pass that compares what arrives")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/read.json")
    return parser.parse_args()


def main() -> None:
    """Make the corpus, run everything in turn, print and write."""
    options = parsed()
    corpus = options.folder / f"{options.clips}-{options.per_shard}"
    if not (corpus / "latents-npy").exists():
        from benchmarks.peers.corpus import make  # noqa: PLC0415 - torch, and only the first time

        make(corpus, options.clips, options.per_shard)
    every = list(entries([sys.executable, *options.peers_python], options.workers, options.systems))
    timings: dict[str, dict[Entry, list[Timing]]] = {
        kind: {
            replace(entry, form=form): []
            for entry in every
            if kind in entry.system.kinds
            for form in entry.system.forms(kind)
            if form in options.forms
        }
        for kind in options.kinds
    }
    if not options.no_check:
        for kind, chosen in timings.items():
            check(chosen, corpus, kind)
    if not options.rounds:
        return
    memories: dict[str, dict[Entry, Memory]] = {
        kind: {entry: memory(entry, corpus, kind) for entry in chosen if not options.no_memory}
        for kind, chosen in timings.items()
    }
    for number in range(options.rounds):
        for kind, chosen in timings.items():
            for entry in in_turn(chosen):
                run = timing(entry, corpus, kind)
                chosen[entry].append(run)
                said = f"round {number + 1} of {options.rounds}: {entry.label} on {kind}, {run.rate:.0f} samples/s"
                print(said, file=sys.stderr, flush=True)
        write(
            options.out, {"clips": options.clips, "per_shard": options.per_shard}, timings, memories
        )  # a stopped benchmark keeps its earlier rounds
    print(f"\ndecoder of headrace and of the limit: {decoder()}")
    for kind, chosen in timings.items():
        show(kind, chosen, memories[kind])


if __name__ == "__main__":
    main()
