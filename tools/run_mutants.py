"""Mutation testing: changes one place of a module at a time, and looks whether the module's tests notice.

Usage:
    python -m tools.run_mutants [--sample N] [--seed N] [--jobs N] [--results FILE] [--survivors FILE] [MODULE ...]

mutants.toml lists the modules with their tests and the changes that are made; a MODULE is a path in it or the beginning
of one. explained_mutants.toml lists mutants that no test can notice, each with the reason; they are not run. Tests that
start other programs do not see a change there, so the tests in mutants.toml do without.

The exit status is 1 if the tests of a module notice less than 95% of its mutants, and 2 if they fail without a change.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tools.mutant_runs import ROOT, Outcome, Tests, outcomes, prepare
from tools.mutating import mutants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tools.mutating import Mutant

CONFIG = Path(__file__).with_name("mutants.toml")
EXPLAINED = Path(__file__).with_name("explained_mutants.toml")
BAR = 0.95


@dataclass(frozen=True, slots=True)
class Score:
    """The outcomes of a module's mutants."""

    outcomes: Mapping[Outcome, int]
    explained: int
    """Mutants that were not run because explained_mutants.toml has them."""
    sample: int | None
    """The largest number of mutants that were to run; None for all."""

    @property
    def mutants(self) -> int:
        """Number of mutants that were run."""
        return sum(self.outcomes.values())

    @property
    def share(self) -> float:
        """The share of mutants that did not survive; 1 if there were none."""
        return 1 - self.outcomes.get(Outcome.SURVIVED, 0) / self.mutants if self.mutants else 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which mutants of a module are run."""

    operators: Sequence[str]
    explained: Mapping[str, Mapping[str, str]]
    sample: int | None
    seed: int

    def score(self, tests: Tests, jobs: int, survivors: TextIO) -> Score:
        """Run the mutants of one module; the survivors are written to `survivors` as they come."""
        order = random.Random(self.seed) if self.sample else None  # noqa: S311 - not a secret
        known, skipped = self.explained.get(tests.path, {}), []
        made = mutants(tests.path, (ROOT / tests.path).read_text(), self.operators, order)
        unexplained = (mutant for mutant in made if not is_explained(mutant, known) or skipped.append(mutant))
        found: Counter[Outcome] = Counter()
        for mutant, outcome in outcomes(tests, islice(unexplained, self.sample), jobs):
            found[outcome] += 1
            if outcome is Outcome.SURVIVED:
                survivors.write(f"# {mutant.path}:{mutant.line} {mutant.operator}\n{mutant.diff}\n\n")
                survivors.flush()
        return Score(found, len(skipped), self.sample)


def is_explained(mutant: Mutant, known: Mapping[str, str]) -> bool:
    """Whether `known` has the changed line, or the constant whose number is changed."""
    return mutant.text in known or mutant.constant in known


def chosen_modules(modules: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> list[Tests]:
    """The modules whose paths begin with one of `wanted`; all without `wanted`."""
    found = [Tests(path, files) for path, files in modules.items() if path.startswith(tuple(wanted or [""]))]
    if not found:
        sys.exit(f"mutants.toml has no module that begins with {' or '.join(wanted)}; it has: {', '.join(modules)}")
    return found


def line(name: str, cells: Iterable[object]) -> str:
    """A line of the table."""
    return f"{name:44}" + "".join(f"{cell:>10}" for cell in cells)


def cells(score: Score) -> list[object]:
    """The figures of a module's line."""
    counts = [score.outcomes.get(outcome, 0) for outcome in (Outcome.KILLED, Outcome.SURVIVED, Outcome.TIMEOUT)]
    return [score.mutants, *counts, score.explained, f"{100 * score.share:.1f}%"]


def recorded(results: Mapping[str, object], scores: Mapping[str, Score]) -> dict[str, object]:
    """`results` with the modules of `scores` replaced, by module."""
    new = {
        path: {
            "sample": score.sample or "all",
            "mutants": score.mutants,
            **{str(outcome): score.outcomes.get(outcome, 0) for outcome in Outcome},
            "explained": score.explained,
            "score": round(score.share, 3),
        }
        for path, score in scores.items()
    }
    return dict(sorted({**results, **new}.items()))


def main(arguments: Sequence[str]) -> int:
    """Run the mutants that `arguments` ask for; print a table and write the survivors."""
    parser = argparse.ArgumentParser(prog="run_mutants", description="Mutation testing by tools/mutants.toml.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a module's path, or the beginning of some")
    parser.add_argument("--sample", type=int, help="at most this many mutants of each module, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at once")
    parser.add_argument("--results", type=Path, help="a JSON file in which to replace the scores of these modules")
    parser.add_argument("--survivors", type=Path, default=ROOT / "build/mutants/survivors.diff")
    options = parser.parse_args(arguments)

    config, explained = (tomllib.loads(path.read_text()) for path in (CONFIG, EXPLAINED))
    os.chdir(ROOT)
    prepare(config["preload"])
    options.survivors.parent.mkdir(parents=True, exist_ok=True)
    choice = Choice(config["operators"], explained, options.sample, options.seed)
    scores = {}
    print(line("module", ["mutants", "killed", "survived", "timeout", "explained", "score"]), flush=True)
    with options.survivors.open("w") as survivors:
        for tests in chosen_modules(config["modules"], options.modules):
            scores[tests.path] = choice.score(tests, options.jobs, survivors)
            print(line(tests.path, cells(scores[tests.path])), flush=True)
    print(f"Survivors: {options.survivors}")
    if options.results:
        before = json.loads(options.results.read_text()) if options.results.exists() else {}
        options.results.write_text(json.dumps(recorded(before, scores), indent=1) + "\n")
    return int(any(score.share < BAR for score in scores.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
