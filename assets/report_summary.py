"""The summary of a data set in the metadata of its report, and where the page of the report is served."""

from collections.abc import Mapping, Sequence

from headrace.format.snapshots.snapshots import NumberedSnapshot

URL_VARIABLE = "HEADRACE_REPORT_URL"
"""Environment variable with the address at which outputs are served; `{name}` stands for the data set."""

_SECONDS_PER_HOUR = 3600.0


def report_link(environment: Mapping[str, str], name: str, path: str) -> str | None:
    """URL of the page of a data set's report; None if no server of outputs is named.

    >>> report_link({"HEADRACE_REPORT_URL": "https://files.example.org/"}, "birds", "report.html")
    'https://files.example.org/birds/report.html'
    >>> report_link({"HEADRACE_REPORT_URL": "https://example.org/{name}/out"}, "birds", "report.html")
    'https://example.org/birds/out/report.html'
    """
    base = environment.get(URL_VARIABLE, "").strip().rstrip("/")
    if not base:
        return None
    folder = base.replace("{name}", name) if "{name}" in base else f"{base}/{name}"
    return f"{folder}/{path}"


def where_words(link: str | None, location: str) -> str:
    """Sentence that says where the page is, for somebody who reads it in a browser."""
    if link is not None:
        return f"The page: [{link}]({link}). The file: `{location}`."
    return (
        f"The page is the file `{location}` on the machine or bucket of the output: open it in a browser there. If a "
        f"web server serves the outputs, set `{URL_VARIABLE}` to its address, and this is a link."
    )


def summary(snapshots: Mapping[str, NumberedSnapshot], reasons: Sequence[tuple[str, int]], where: str) -> str:
    """Markdown: samples, hours and bytes of each part by split, rejects by their reasons, and where the page is.

    Args:
        snapshots: part of the data set (`audio`, `latents crepe`) → its newest snapshot.
        reasons: codes of rejects, and how many have each.
        where: see `where_words`.
    """
    lines = ["| part | split | samples | hours | GB | shards |", "|---|---|--:|--:|--:|--:|"]
    for part, numbered in snapshots.items():
        for split, totals in numbered.snapshot.splits.items():
            hours, size = totals.seconds / _SECONDS_PER_HOUR, totals.num_bytes / 1e9
            lines.append(
                f"| {part} | {split} | {totals.num_samples:,} | {hours:,.4g} | {size:,.4g} | {totals.num_shards:,} |"
            )
    total = sum(count for _, count in reasons)
    rejects = [f"{total:,} files or rows are rejected:", "", *(f"- {code}: {count:,}" for code, count in reasons)]
    return "\n".join([where, "", *lines, "", *(rejects if total else ["No file or row is rejected."])])
