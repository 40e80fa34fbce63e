"""The table of `docs/benchmarks.md` from raw results of `read.py`: `python benchmarks/read_table.py FILE.json [...]`.

Ratios are between medians over all readings of all files: seconds, and CPU seconds, of a loader relative to those of
Headrace without worker processes, which is read before each of the others. Of the settings with and without worker
processes, the faster one counts; its number of worker processes is in brackets. Prints Markdown.
"""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

OURS = "headrace"
NONE = "-"
FORMS = ("best", "documented")


@dataclass(slots=True)
class Figures:
    """All readings of a loader with one setting."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)

    def add(self, reading: dict[str, float]) -> None:
        """One more reading; seconds are those of a sample, except for those of the first batch."""
        self.seconds.append(reading["seconds"] / reading["num_samples"])
        self.cpu_seconds.append(reading["cpu_seconds"] / reading["num_samples"])
        self.first_seconds.append(reading["first_seconds"])
        self.peak_mib += [reading["peak_mib"]] if reading.get("peak_mib") else []


Setting = tuple[str, str, str, int]
"""Loader, kind, form, worker processes."""


def figures(paths: list[Path]) -> dict[Setting, Figures]:
    """Figures of each loader in the files."""
    found: dict[Setting, Figures] = defaultdict(Figures)
    for path in paths:
        for reading in json.loads(path.read_text())["readings"]:
            found[reading["system"], reading["kind"], reading["form"], reading["num_workers"]].add(reading)
    return found


def row(found: dict[Setting, Figures], loader: str, kind: str) -> str:
    """The line of a loader: ratios of both forms; CPU time, first batch and memory of the best form."""
    ours, cells = found[OURS, kind, "best", 0], [loader]
    chosen = [_faster(found, loader, kind, form) for form in FORMS]
    cells += [f"{median(found[s].seconds) / median(ours.seconds):.2f} ({s[3]})" if s else NONE for s in chosen]
    best = found[chosen[0] or (OURS, kind, "best", 0)]
    cells.append(f"{median(best.cpu_seconds) / median(ours.cpu_seconds):.2f}")
    cells.append(f"{median(best.first_seconds):.3f}")
    cells.append(f"{median(best.peak_mib):,.0f}" if best.peak_mib else NONE)
    return f"| {' | '.join(cells)} |"


def _faster(found: dict[Setting, Figures], loader: str, kind: str, form: str) -> Setting | None:
    """A loader's faster setting of worker processes; None if it was not read in this form."""
    settings = [setting for setting in found if setting[:3] == (loader, kind, form)]
    return min(settings, key=lambda setting: median(found[setting].seconds), default=None)


def main() -> None:
    """See the module's docstring."""
    found = figures([Path(name) for name in sys.argv[1:]])
    for kind in dict.fromkeys(setting[1] for setting in found):
        print(f"\n| {kind} | best | documented | CPU time | first batch, s | peak MiB |\n|---|---|---|---|---|---|")
        settings = [setting for setting in found if setting[1] == kind and setting[2] == "best"]
        for loader in dict.fromkeys(s[0] for s in sorted(settings, key=lambda s: median(found[s].seconds))):
            print(row(found, loader, kind))


if __name__ == "__main__":
    main()
