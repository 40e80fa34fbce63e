"""A user's schema that is checked in parts accepts the same tables, and has the same messages."""

from itertools import pairwise
from unittest import mock

import pandera.polars as pa
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.judging import validation as checks
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.single_value_schemas import is_of_single_values
from headrace.catalog.judging.validation import check_metadata, check_metadata_in_parts
from headrace.catalog.scanning.scan import scan
from headrace.errors import CatalogError
from tests.support.catalog_fakes import FakeSource, fake_runtime


class Words(pa.DataFrameModel):
    title: str = pa.Field(str_length={"min_value": 2}, nullable=True)
    snr: float = pa.Field(ge=0, le=9)


class Coerced(pa.DataFrameModel):
    title: int = pa.Field(coerce=True)


class Mean(pa.DataFrameModel):
    snr: float

    @pa.check("snr")
    def is_low(cls, data):  # noqa: N805 - pandera's own form
        return data.lazyframe.select(pl.col(data.key).mean() < 3)


def column(name, *given_, **kinds):
    return pa.DataFrameSchema({name: pa.Column(None, *given_, nullable=True, **kinds)})


OF_VALUES = {
    "words": Words.to_schema(),
    "coerced": Coerced.to_schema(),
    "ours": column("num_frames", pa.Check.lt(5)),
    "strict": pa.DataFrameSchema({"title": pa.Column(str, nullable=True)}, strict=True),
    "own function of a value": column("snr", pa.Check(lambda value: value < 5, element_wise=True)),
    "in": column("title", pa.Check.isin(["1", "22"])),
}
OF_TABLES = {
    "mean": Mean.to_schema(),
    "unique": column("title", unique=True),
    "unique rows": pa.DataFrameSchema({"title": pa.Column(str, nullable=True)}, unique=["title"]),
    "all values": column("title", pa.Check.unique_values_eq(["1", "22"])),
    "own name": column("snr", pa.Check(lambda data: data.lazyframe.select(pl.len() < 3), name="isin")),
    "rows": pa.DataFrameSchema(
        {"title": pa.Column(str, nullable=True)}, checks=pa.Check(lambda data: data.lazyframe.select(pl.len() < 3))
    ),
    "warning": column("snr", pa.Check.ge(0, raise_warning=True)),
}
SCHEMAS = OF_VALUES | OF_TABLES
ROWS = st.lists(
    st.tuples(st.sampled_from(["1", "22", "x", None]), st.sampled_from([0.0, 2.5, 8.0, -1.0]), st.integers(1, 7)),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items(), ids=list(SCHEMAS))
def test_only_schemas_of_single_values_are_checked_in_parts(name, schema):
    assert is_of_single_values(schema) == (name in OF_VALUES)


@pytest.fixture(scope="module")
def recording():
    """The row of a recording."""
    source = FakeSource()
    source.put("a.wav", b"1")
    table = pl.DataFrame({"path": ["a.wav"], "title": ["one"], "snr": [1.0]})
    return scan(source, None, CatalogSettings(0), table, fake_runtime()).recordings


def message_of(act):
    try:
        act()
    except CatalogError as error:
        return str(error)
    return None


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(deadline=None, max_examples=40)
@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 8), max_size=3),
    name=st.sampled_from(list(SCHEMAS)),
    batch=st.integers(1, 4),
)
def test_any_table_has_the_same_message_in_parts(recording, rows, cuts, name, batch):
    titles, snr, frames = map(list, zip(*rows, strict=True))
    whole = pl.concat([recording] * len(rows)).with_columns(
        path=pl.Series([f"{number}.wav" for number in range(len(rows))]),
        title=pl.Series(titles, dtype=pl.String),
        snr=pl.Series(snr),
        num_frames=pl.Series(frames),
    )
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [whole[start:stop] for start, stop in pairwise(edges)][::-1]

    def of(columns):
        return whole.select(columns)

    with mock.patch.multiple(checks, _BATCH_ROWS=batch, load_schema=lambda reference: SCHEMAS[reference]):
        expected = message_of(lambda: check_metadata(whole, name))
        assert message_of(lambda: check_metadata_in_parts(parts, of, name)) == expected


def test_a_table_that_passes_is_never_read_as_a_whole(recording):
    with mock.patch.object(checks, "load_schema", OF_VALUES.get):
        check_metadata_in_parts([recording, recording], lambda columns: pytest.fail(f"read {columns}"), "ours")


def test_only_the_columns_that_a_schema_sees_are_read(recording):
    seen = []
    with mock.patch.object(checks, "load_schema", OF_TABLES.get):
        check_metadata_in_parts([recording], lambda columns: seen.append(columns) or recording.select(columns), "mean")
    assert seen == [["path", "title", "snr"]]


def test_a_catalog_without_parts_is_checked_as_an_empty_table(recording):
    with mock.patch.object(checks, "load_schema", OF_VALUES.get), pytest.raises(CatalogError, match="'title'"):
        check_metadata_in_parts(
            [], lambda columns: recording.head(0).drop("title").select(columns or pl.all()), "words"
        )
