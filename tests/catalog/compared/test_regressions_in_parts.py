"""Catalogs that are compared in parts have the problems that dictionaries find."""

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.catalog.compared.regressions import REPORTED_PATH, find_regressions, mark_reported
from headrace.catalog.rows.schemas import REJECTED_SCHEMA
from headrace.stores.storage import open_storage

PATHS = [f"{name}.wav" for name in "abcdefgh"]
SPANS = st.dictionaries(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["k1", "k2"])), st.sampled_from([1.0, 2.5]), max_size=9
)
REJECTS = st.dictionaries(
    st.tuples(
        st.sampled_from(["file", "decode", "metadata", "exclude"]),
        st.sampled_from(PATHS),
        st.sampled_from(["k1", "k2", None]),
    ),
    st.sampled_from(["empty", "non_finite", "excluded"]),  # the last one is what the YAML asks for
    max_size=7,
)


def tables_of(spans, rejects):
    """Recordings in two tables, and the table of rejects."""
    recordings = pl.DataFrame(
        [(path, key, seconds) for (path, key), seconds in spans.items()],
        schema={"path": pl.String, "key": pl.String, "duration_seconds": pl.Float64},
        orient="row",
    )
    rows = [
        {"path": path, "reason": f"{code}!", "code": code, "origin": origin, "key": key}
        for (origin, path, key), code in rejects.items()
    ]
    return [recordings[:2], recordings[2:]], pl.DataFrame(rows, schema=dict(REJECTED_SCHEMA))


def facts_of(spans, rejects):
    """(is a row, subject) → code, and seconds."""
    bad = {(path, key) for origin, path, key in rejects if origin == "decode"}
    good = {name: seconds for name, seconds in spans.items() if name not in bad}
    facts = {}
    for (origin, path, key), code in rejects.items():
        is_row = origin == "metadata" or (origin == "decode" and path in {good_path for good_path, _ in good})
        subject = f"key {key}" if origin == "exclude" else f"{path} ({key})" if is_row and key is not None else path
        if not (origin == "exclude" and key is None):
            facts.setdefault((is_row, subject), (code, 0.0))
    files = {}
    for (path, _), seconds in good.items():
        if facts.get((False, path), ("", 0))[0] == "":
            files[False, path] = ("", files.get((False, path), ("", 0.0))[1] + seconds)
    return facts | files


def is_asked_for(code):
    return code == "excluded"


def expected(before, now, unsettled):
    """New problems, what is gone, and the state after the report."""
    absent = {name: fact for name, fact in before.items() if not name[0] and name not in now}
    waiting = {name: fact for name, fact in absent.items() if unsettled is None or name[1] in unsettled}
    reported = {name: fact for name, fact in before.items() if name not in waiting}
    fresh = {
        name
        for name, (code, _) in now.items()
        if code
        and not is_asked_for(code)
        and not (name in reported and reported[name][0] and not is_asked_for(reported[name][0]))
    }
    usable = {name for name, (code, _) in reported.items() if not code}
    lost = {(is_row, subject) for is_row, subject in fresh if not is_row and (is_row, subject) in usable}
    gone = {subject for is_row, subject in usable if (is_row, subject) not in now}
    sums = (sum(reported[name][1] for name in usable), sum(seconds for code, seconds in now.values() if not code))
    others = {subject for _, subject in fresh - lost}  # a row may have the name of a lost file
    return {subject for _, subject in lost}, others, gone, sums, now | waiting


def found_in(output, spans, rejects, unsettled, part_bytes):
    recordings, rejected = tables_of(spans, rejects)
    return find_regressions(output, iter(recordings), rejected, unsettled, part_bytes)


def state_of(tables):
    return {(row[0], row[1]): (row[2], row[3]) for table in tables for row in table.iter_rows()}


@pytest.mark.medium
@settings(deadline=None, max_examples=20)
@example({("a.wav", "k1"): 1.0, ("b.wav", "k1"): 1.0}, {}, {}, {("file", "a.wav", None): "empty"}, None, 1)
@example(
    {("a.wav", "k1"): 1.0, ("a.wav", "k2"): 2.5},
    {},
    {("a.wav", "k1"): 1.0, ("a.wav", "k2"): 2.5},
    {("decode", "a.wav", "k2"): "non_finite"},
    ["b.wav"],
    1,
)
@example(
    {("a.wav", "k1"): 1.0}, {}, {}, {("file", "a.wav", "k1"): "empty", ("metadata", "a.wav", None): "empty"}, None, 1
)
@given(
    SPANS, REJECTS, SPANS, REJECTS, st.one_of(st.none(), st.lists(st.sampled_from(PATHS), max_size=3)),
    st.sampled_from([1, 1 << 30]),
)  # fmt: skip
def test_any_two_catalogs_have_the_problems_that_dictionaries_find(  # noqa: PLR0913, PLR0917 - two catalogs
    spans, rejects, later, others, unsettled, part_bytes
):
    rejects, others = ({name: code for name, code in some.items() if name[0] != "exclude" or name[2]}
                       for some in (rejects, others))  # fmt: skip
    output = open_storage("memory://")
    first = found_in(output, spans, rejects, unsettled, part_bytes)
    before, now = facts_of(spans, rejects), facts_of(later, others)
    assert (first.lost_to_rejection, first.other_rejects, first.gone) == ((), (), ())
    mark_reported(output, first)
    assert state_of([pl.read_parquet(output.read(REPORTED_PATH))]) == before
    second = found_in(output, later, others, unsettled, part_bytes)
    lost, new, gone, sums, state = expected(before, now, unsettled)
    assert {subject for subject, _ in second.lost_to_rejection} == lost
    assert {subject for subject, _ in second.other_rejects} == new
    assert second.gone == tuple(sorted(gone))
    assert (second.seconds_before, second.seconds) == sums
    assert second.is_new == (state != before)
    mark_reported(output, second)
    assert state_of([pl.read_parquet(output.read(REPORTED_PATH))]) == state
