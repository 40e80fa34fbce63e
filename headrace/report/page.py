"""Renders the report page of a data set: one HTML file without scripts or external resources, for any browser.

The content comes from `headrace.report.contents`, the pictures from `headrace.report.figures`. Audio is played by the
browser and cut to a few seconds, so that the page opens quickly.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
import soundfile

from headrace.format.beside.views import NumberedView
from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.report import figures
from headrace.report.contents import Array, GalleryClip, ReportContents
from headrace.upkeep.column_summary import SUMMARY_HEADERS, ColumnSummary, summary_cells

_SECONDS_PER_HOUR = 3600.0
CLIP_SECONDS = 8
_MOST_UNREADABLE = 6
_MP3_RATES_HZ = frozenset({8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000})

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2b33;--paper:#fff;--line:#d5dee3;--soft:#f3f6f8;--accent:#2f6f8f}
@media(prefers-color-scheme:dark){:root{--ink:#dbe4ea;--paper:#11181d;--line:#2c3a43;--soft:#18222a;--accent:#6bb3d6}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:64rem;padding:1rem;color:var(--ink);
background:var(--paper)}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
p.lead{font-size:1.05rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem}
.card{background:var(--soft);border:1px solid var(--line);border-radius:.5rem;padding:.75rem;min-width:0}
.card h3{font-size:.85rem;font-weight:600;margin:0 0 .4rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
svg.chart{width:100%;height:auto;display:block}svg.chart text{fill:currentColor}
img.pixels{width:100%;height:5rem;display:block;image-rendering:auto;border-radius:.25rem;margin-top:.3rem}
audio{width:100%;height:2.2rem;margin:.3rem 0}
pre{background:var(--soft);border:1px solid var(--line);border-radius:.5rem;padding:.75rem;overflow-x:auto;
font-size:.85rem}
small{color:color-mix(in srgb,var(--ink) 65%,transparent)}
"""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of the page.

    Attributes:
        name: name of the data set.
        snapshots: part of the data set (`audio`, `latents crepe`) → its newest snapshot.
        reasons: (rejection code, number of rejected files and rows) pairs.
        uri: path or URL of the output.
        contents: charts, gallery and lists.
        views: newest snapshots of views by name.
        columns: summaries of the columns of each set.
    """

    name: str
    snapshots: Mapping[str, NumberedSnapshot]
    reasons: Sequence[tuple[str, int]]
    uri: str = ""
    contents: ReportContents = field(default_factory=ReportContents)
    views: Mapping[str, NumberedView] = field(default_factory=dict)
    columns: Mapping[str, Sequence[ColumnSummary]] = field(default_factory=dict)


def render_report(report: Report) -> bytes:
    """The page as HTML. Equal reports give equal bytes."""
    body = "\n".join(
        [
            _lead(report),
            _section("Contents", _counts(report)),
            _section("Views", _views(report)),
            _section("Hours", _charts(report.contents)),
            _section("Listen", _gallery(report.contents)),
            _section("Columns", _columns(report)),
            _section("How to load it", _code(report)),
            _section("Rejected files and rows", _rejected(report)),
            _section("Samples without latents", _without_latents(report.contents)),
        ]
    )
    return html_page(report.name, body)


def html_page(title: str, body: str) -> bytes:
    """A whole page with the report's style. `title` is text, `body` is HTML."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{name}</title><style>{_STYLE}</style>'
    )
    numbered = figures.with_own_ids(body)
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{numbered}</body></html>\n'.encode()


def _lead(report: Report) -> str:
    audio = report.snapshots.get("audio")
    if audio is None:
        return f"<h1>{escape(report.name)}</h1>"
    hours = sum(split.seconds for split in audio.snapshot.splits.values()) / _SECONDS_PER_HOUR
    parts = ", ".join(part for part in report.snapshots if part != "audio")
    return (
        f"<h1>{escape(report.name)}</h1>"
        f'<p class="lead">{audio.snapshot.num_samples:,} samples, {hours:.3f} hours of audio in '
        f"{audio.snapshot.num_shards:,} shards{f', with {escape(parts)}' if parts else ''}. "
        f"Snapshot {audio.number}, <small>{audio.snapshot.fingerprint[:12]}</small></p>"
    )


def _counts(report: Report) -> str:
    rows = [
        (
            part,
            split,
            totals.num_shards,
            totals.num_samples,
            round(totals.seconds / _SECONDS_PER_HOUR, 3),
            totals.num_bytes,
        )
        for part, numbered in report.snapshots.items()
        for split, totals in numbered.snapshot.splits.items()
    ]
    return _table(("part", "split", "shards", "samples", "hours", "bytes"), rows)


def _columns(report: Report) -> str:
    """A summary of the columns of each set; empty without any."""
    tables = [
        f"<h3>{escape(name)}</h3>{_table(SUMMARY_HEADERS, [summary_cells(summary) for summary in summaries])}"
        for name, summaries in report.columns.items()
        if summaries
    ]
    return "".join(tables)


def _views(report: Report) -> str:
    """Table of the samples that each view chooses; empty without views."""
    rows = [
        (name, str(view.snapshot.definition), split, totals.num_samples, totals.num_chosen, totals.num_drawn)
        for name, view in report.views.items()
        for split, totals in view.snapshot.splits.items()
    ]
    return _table(("view", "chooses", "split", "samples", "chosen", "in an epoch"), rows) if rows else ""


def _charts(contents: ReportContents) -> str:
    charts = []
    if contents.hours:
        title = f"by {contents.category} and split" if contents.category else "by split"
        charts.append((f"Hours {title}", figures.bars(contents.hours)))
    if contents.durations:
        charts.append(("Length of recordings", figures.histogram(contents.durations, "seconds")))
    if contents.levels_db:
        clipped = f", {contents.num_clipped} of them clipped" if contents.num_clipped else ""
        title = f"Level of {len(contents.levels_db)} samples{clipped}"
        charts.append((title, figures.histogram(contents.levels_db, "dB RMS")))
    if contents.growth:
        numbers, hours = zip(*contents.growth, strict=True)
        charts.append(("Growth over snapshots", figures.growth(numbers, hours)))
    return grid([f"<h3>{escape(title)}</h3>{drawing}" for title, drawing in charts])


def _gallery(contents: ReportContents) -> str:
    more = len(contents.unreadable) - _MOST_UNREADABLE
    lines = [*contents.unreadable[:_MOST_UNREADABLE], *([f"… and {more} more"] if more > 0 else [])]
    return grid([_clip(clip) for clip in contents.clips]) + "".join(f"<p>{escape(line)}</p>" for line in lines)


def _clip(clip: GalleryClip) -> str:
    length = clip.samples.shape[1] / clip.sample_rate_hz
    start = clip.samples[:, : CLIP_SECONDS * clip.sample_rate_hz]
    cut = f", the first {CLIP_SECONDS} s" if length > CLIP_SECONDS else ""
    drawn = [figures.waveform(start[0]), figures.spectrogram(start[0])] if start.size else []
    drawn += [f"<small>{escape(name)}</small>{figures.latents(hidden)}" for name, hidden in clip.latents.items()]
    for name, samples in clip.stems.items():
        stem = samples[:, : start.shape[1]]
        wave = figures.waveform(stem[0]) if stem.size else ""
        drawn.append(f"<small>{escape(name)}</small>{player(stem, clip.sample_rate_hz, f'{clip.key} {name}')}{wave}")
    named = f"{clip.field_name}, " if clip.stems else ""
    facts = f"{named}{clip.split}, {length:.2f} s, {clip.sample_rate_hz} Hz{cut}"
    sound = player(start, clip.sample_rate_hz, clip.key)
    return f"<h3>{escape(clip.key)}</h3><small>{escape(facts)}</small>{sound}{''.join(drawn)}"


def player(samples: Array, sample_rate_hz: int, label: str) -> str:
    """HTML that plays float32 (channels, frames) in [-1, 1]; the audio is in it."""
    file = io.BytesIO()
    kind = ("MP3", "audio/mpeg") if sample_rate_hz in _MP3_RATES_HZ and len(samples) <= 2 else ("FLAC", "audio/flac")
    soundfile.write(file, np.ascontiguousarray(samples.T), sample_rate_hz, format=kind[0])
    source = f"data:{kind[1]};base64,{base64.b64encode(file.getvalue()).decode()}"
    return f'<audio controls preload="metadata" aria-label="{escape(label)}" src="{source}"></audio>'


def _code(report: Report) -> str:
    joined = [f"{report.uri}/latents/{part.removeprefix('latents ')}" for part in report.snapshots if part != "audio"]
    latents = f"\n    latents={joined!r}," if joined else ""
    split = _largest_split(report)
    chosen = f"\n    split={split!r}," if split else ""
    size = "1,  # samples differ in channels: larger batches need a transform" if report.contents.is_mixed else "8,"
    code = (
        "import headrace\n\n"
        "dataset = headrace.StreamingDataset(\n"
        f"    remote={report.uri + '/audio'!r},{latents}{chosen}\n    batch_size={size}\n    shuffle=True,\n)\n"
        "loader = headrace.StreamingDataLoader(dataset, num_workers=2)\n"
        f'for batch in loader:\n    {_shown_fields(report.contents)}, batch["num_frames"], batch["metadata"]\n'
    )
    return f"<pre>{escape(code)}</pre>"


def _shown_fields(contents: ReportContents) -> str:
    """The audio fields of a batch, in code."""
    clip = next(iter(contents.clips), None)
    names = (AUDIO,) if clip is None else (clip.field_name, *clip.stems)
    return ", ".join(f'batch["{name}"]' for name in names)


def _largest_split(report: Report) -> str:
    """The split with the most audio samples; empty if there are no samples."""
    splits = report.snapshots["audio"].snapshot.splits if "audio" in report.snapshots else {}
    held = {name: totals.num_samples for name, totals in splits.items() if totals.num_samples}
    return max(held, key=held.__getitem__, default="")


def _rejected(report: Report) -> str:
    if not report.reasons:
        return "<p>None.</p>"
    files = _table(("path", "code", "reason"), report.contents.rejected) if report.contents.rejected else ""
    return _table(("code", "count"), report.reasons) + files


def _without_latents(contents: ReportContents) -> str:
    """Tables of samples without latents; empty if there are none."""
    if not contents.num_without_latents:
        return ""
    counts = _table(("latents", "samples without them"), list(contents.num_without_latents.items()))
    return counts + _table(("latents", "key", "path", "code", "reason"), contents.without_latents)


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def grid(cards: Sequence[str]) -> str:
    """Cards of HTML, side by side."""
    return f'<div class="grid">{"".join(_card(card) for card in cards)}</div>' if cards else ""


def _card(content: str) -> str:
    return f'<div class="card">{content}</div>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    kinds = [isinstance(value, int | float) for value in rows[0]] if rows else [False] * len(columns)
    heads = zip(columns, kinds, strict=True)
    head = "".join(f"<th{' class=number' if is_number else ''}>{escape(column)}</th>" for column, is_number in heads)
    lines = "\n".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:,.3f}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
