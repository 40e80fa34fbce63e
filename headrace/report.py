"""A page about a data set: one HTML file without scripts or outside parts, to open in any browser or send along.

Owns the page. It is given tables and draws them; it computes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from headrace.snapshots import NumberedSnapshot

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c2b33}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}
th,td{padding:.25rem .75rem;border-bottom:1px solid #d5dee3;text-align:left}
td.number{text-align:right;font-variant-numeric:tabular-nums}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
"""


@dataclass(frozen=True, slots=True)
class Report:
    """What the page says.

    Attributes:
        name: of the data set.
        snapshots: part of the data set (`audio`, `latents crepe`) → its newest snapshot.
        reasons: why files were refused, and how many.
    """

    name: str
    snapshots: Mapping[str, NumberedSnapshot]
    reasons: Sequence[tuple[str, int]]


def render_report(report: Report) -> bytes:
    """The page. Equal reports give equal bytes."""
    rows = [
        (part, split, totals.num_shards, totals.num_samples, f"{totals.seconds / 3600:.3f}", totals.num_bytes)
        for part, numbered in report.snapshots.items()
        for split, totals in numbered.snapshot.splits.items()
    ]
    numbers = [(part, n.number, n.snapshot.fingerprint[:12]) for part, n in report.snapshots.items()]
    body = "\n".join(
        [
            f"<h1>{escape(report.name)}</h1>",
            "<h2>What it holds</h2>",
            _table(("part", "split", "shards", "samples", "hours", "bytes"), rows),
            "<h2>Snapshots</h2>",
            _table(("part", "number", "fingerprint"), numbers),
            "<h2>Refused files and rows</h2>",
            _table(("reason", "count"), report.reasons) if report.reasons else "<p>None.</p>",
        ]
    )
    head = f'<meta charset="utf-8"><title>{escape(report.name)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'.encode()


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "\n".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _cell(value: object) -> str:
    kind = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{escape(str(value))}</td>"
