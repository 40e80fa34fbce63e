"""Decisions about files that need other files or settings, and the facts that follow from them."""

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import (
    CatalogSettings,
    bad_facts,
    decide_files,
    decode_rejects,
    formed,
    rejected_rows,
    sorted_rejects,
    unknown_exclusions,
    with_decode_rejects,
    with_rejects,
)
from headrace.catalog.rows.schemas import REJECTED_SCHEMA
from headrace.config.source import Duplicates, KeyForm
from headrace.format.rejects import RejectReason, RejectSubject
from tests.support.recording_table import recordings


def candidates(*rows):
    names = ("path", "key", "sha256", "code", "reason")
    filled = [dict(zip(names, [*row, *[None] * (5 - len(row))], strict=True)) for row in rows]
    return pl.DataFrame(filled, schema=dict.fromkeys(names, pl.String))


def codes(decided):
    return dict(decided.select("path", "code").iter_rows())


def test_the_first_path_keeps_a_key_and_a_rejected_file_does_not_occupy_it():
    rivals = candidates(("c", "k", "3"), ("b", "k", "2"), ("a", "k", "1", "empty", "no bytes"))
    decided = decide_files(rivals, CatalogSettings())
    assert codes(decided) == {"a": "empty", "b": None, "c": "duplicate_key"}
    assert "has the key 'k', which b already has" in decided["reason"][2]


def test_the_first_path_keeps_a_content_and_frees_the_keys_of_its_copies():
    rivals = candidates(("a", "k", "1"), ("b", "l", "1"), ("c", "l", "2"), ("d", "k", "3"))
    decided = decide_files(rivals, CatalogSettings(duplicates=Duplicates.DROP))
    assert codes(decided) == {"a": None, "b": "duplicate", "c": None, "d": "duplicate_key"}
    assert "same bytes as a, which is kept" in decided["reason"][1]


def test_a_row_keeps_its_first_rejection():
    rows = candidates(("a", "k", "1"), ("b", "l", "2", "empty", "no bytes"))
    found = with_rejects(rows, pl.lit(value=True), "too_short", pl.lit("short"))
    assert codes(found) == {"a": "too_short", "b": "empty"}
    assert with_rejects(rows, pl.lit(value=False), "too_short", pl.lit("short")) is rows


def test_rejects_are_sorted_by_path_and_origin():
    rows = [("b", "file"), ("a", "metadata"), ("a", "file")]
    table = rejected_rows(pl.DataFrame(rows, schema=["path", "code"], orient="row"), RejectSubject.FILE)
    assert table.schema == pl.Schema(REJECTED_SCHEMA)
    assert sorted_rejects(table)["path"].to_list() == ["a", "a", "b"]


def test_a_fault_of_a_file_rejects_its_recording_while_its_bytes_are_the_same():
    faults = pl.DataFrame({"path": ["a.wav"], "sha256": ["1"], "code": ["truncated"], "reason": ["cut"]})
    found = decode_rejects(recordings(), faults)
    assert found.select("path", "key", "origin", "code").row(0) == ("a.wav", "k", "decode", "truncated")
    assert decode_rejects(recordings(sha256="2"), faults).is_empty()
    assert decode_rejects(recordings(stop_frame=9), faults).is_empty()  # a span has a fault of its own key
    others = rejected_rows(pl.DataFrame({"path": ["z"], "code": ["empty"]}), RejectSubject.FILE)
    assert with_decode_rejects(pl.concat([others, found]), [])["path"].to_list() == ["z"]


def test_a_file_that_could_not_be_read_has_no_facts():
    rows = pl.DataFrame({"path": ["a", "b"], "sha256": ["1", None], "code": ["empty", "unreadable"]})
    assert bad_facts(rejected_rows(rows, RejectSubject.FILE))["path"].to_list() == ["a"]
    assert bad_facts(rejected_rows(rows, RejectSubject.METADATA)).is_empty()


@pytest.mark.parametrize(("form", "is_same"), [(KeyForm.AS_IS, True), (KeyForm.SLUG, False)])
def test_keys_of_any_text_become_slugs_on_demand(form, is_same):
    assert (formed(pl.Series(["a b"]), form).to_list() == ["a b"]) == is_same


def test_keys_that_name_nothing_are_rejects():
    (row,) = unknown_exclusions(["x"]).select("key", "code").rows()
    assert row == ("x", RejectReason.EXCLUDES_NOTHING)
