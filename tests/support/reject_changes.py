"""Shared by test_reject_changes and the tests beside it."""

import polars as pl
from hypothesis import strategies as st

from headrace.catalog.judging.acceptance import REJECT_ORDER
from headrace.catalog.rows.schemas import REJECTED_SCHEMA
from headrace.format.rejects import RejectSubject

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["a.wav", "b.wav", "b.wav (k)", "\u00e9.wav", "key k", "z/z.wav", ""]),
            "reason": st.sampled_from(["empty", "too short"]),
            "code": st.sampled_from(["empty", "too_short", "excluded", "duplicate"]),
            "origin": st.sampled_from(list(map(str, RejectSubject))),
            "key": st.sampled_from(["k", "l", None]),
            "sha256": st.sampled_from(["1", "2", None]),
        }
    ),
    max_size=12,
    unique_by=lambda row: tuple(row[name] or "" for name in REJECT_ORDER),  # whose order is defined
).map(lambda rows: pl.DataFrame(rows, schema=REJECTED_SCHEMA))
