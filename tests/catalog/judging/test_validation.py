import pandera.polars as pa
import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.validation import check_catalog, check_metadata, check_partitions, load_schema
from headrace.catalog.scanning.scan import scan
from headrace.errors import CatalogError, ConfigError
from tests.support.catalog_fakes import FakeSource, fake_runtime


class Titles(pa.DataFrameModel):
    title: str = pa.Field(str_length={"min_value": 2})
    sha256: int


SHORT = pa.DataFrameSchema(
    {"title": pa.Column(str), "duration_seconds": pa.Column(float, pa.Check.lt(0.15))}, strict=False
)
NOT_A_SCHEMA = 3
HERE = "tests.catalog.judging.test_validation"


@pytest.fixture
def catalog():
    source = FakeSource()
    for name, content in (("a.wav", b"1"), ("b.wav", b"22"), ("c.wav", b"bad")):
        source.put(name, content)
    metadata = pl.DataFrame({"path": ["a.wav", "b.wav"], "title": ["one", "two"], "sha256": [1, 2]})
    return scan(source, None, CatalogSettings(0), metadata, fake_runtime()).catalog


@pytest.mark.medium
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_a_stored_catalog_is_checked_in_batches(catalog, monkeypatch, batch_rows):
    monkeypatch.setattr("headrace.catalog.judging.validation._BATCH_ROWS", batch_rows)
    first, second = catalog.recordings[:1], catalog.recordings[1:]
    check_partitions(lambda: iter([first, second]), catalog.rejected)
    check_partitions(lambda: iter([]), catalog.rejected)
    bad = second.with_columns(num_frames=pl.lit(-3, dtype=pl.Int64))
    with pytest.raises(CatalogError, match=r"'-3' \(b\.wav\)"):
        check_partitions(lambda: iter([first, bad]), catalog.rejected)
    repeated = second.with_columns(pl.lit(first["key"][0]).alias("key"))
    with pytest.raises(CatalogError, match=f"column 'key', field_uniqueness.*{first['key'][0]}"):
        check_partitions(lambda: iter([first, repeated]), catalog.rejected)
    rejected = pl.concat([catalog.rejected.with_columns(path=pl.lit(path)) for path in "pqr"])
    check_partitions(lambda: iter([first]), rejected)
    wrong = rejected.with_columns(origin=pl.when(path="r").then(pl.lit("moon")).otherwise("origin"))
    with pytest.raises(CatalogError, match=r"the rejected table.*'moon' \(r\)"):
        check_partitions(lambda: iter([first]), wrong)


def test_the_result_of_a_scan_passes(catalog):
    check_catalog(catalog.recordings, catalog.rejected)
    check_catalog(catalog.recordings.head(0), catalog.rejected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.lit("same").alias("key"), "'key'"),
        (pl.lit("a.b").alias("key"), r"'key'.*a\.b.*a\.wav"),
        (pl.lit(0, dtype=pl.Int64).alias("num_frames"), "'num_frames'"),
        (pl.lit("short").alias("sha256"), "'sha256'"),
        (pl.lit(None, dtype=pl.String).alias("recording_digest"), "'recording_digest'"),
        (pl.col("num_bytes").cast(pl.Int32), "'num_bytes'"),
    ],
)
def test_a_broken_catalog_is_an_error_that_names_column_and_path(catalog, change, message):
    with pytest.raises(CatalogError, match=message):
        check_catalog(catalog.recordings.with_columns(change), catalog.rejected)


def test_a_missing_column_is_named(catalog):
    with pytest.raises(CatalogError, match="'num_frames'"):
        check_catalog(catalog.recordings.drop("num_frames"), catalog.rejected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.lit("elsewhere").alias("origin"), r"the rejected table.*'origin'.*elsewhere"),
        (pl.lit(None, dtype=pl.String).alias("path"), "the rejected table.*'path'"),
        (pl.lit(None, dtype=pl.String).alias("code"), "the rejected table.*'code'"),
        (pl.lit(None, dtype=pl.String).alias("reason"), "the rejected table.*'reason'"),
        (pl.lit(None, dtype=pl.String).alias("origin"), "the rejected table.*'origin'"),
        (pl.lit(1, dtype=pl.Int32).alias("num_bytes"), "the rejected table.*'num_bytes'"),
        (pl.lit(1).alias("surplus"), "the rejected table.*surplus"),
    ],
)
def test_a_broken_rejected_table_is_an_error_that_names_its_column(catalog, change, message):
    assert catalog.rejected.height == 1
    with pytest.raises(CatalogError, match=message):
        check_catalog(catalog.recordings, catalog.rejected.with_columns(change))


def test_a_missing_column_of_the_rejected_table_is_named(catalog):
    with pytest.raises(CatalogError, match=r"the rejected table.*'sha256'"):
        check_catalog(catalog.recordings, catalog.rejected.drop("sha256"))


def test_unknown_values_of_a_rejected_row_may_be_absent(catalog):
    known = {"path", "reason", "code", "origin"}
    unknown = [pl.lit(None, dtype=kind).alias(n) for n, kind in catalog.rejected.schema.items() if n not in known]
    check_catalog(catalog.recordings, catalog.rejected.with_columns(unknown))


def test_the_users_schema_uses_the_users_column_names(catalog):
    check_metadata(catalog.recordings, f"{HERE}:Titles")


def test_the_users_schema_may_check_our_columns(catalog):
    with pytest.raises(CatalogError, match=r"'duration_seconds'.*b\.wav"):
        check_metadata(catalog.recordings, f"{HERE}:SHORT")


def test_an_error_about_invalid_metadata_names_check_and_path(catalog):
    bad = catalog.recordings.with_columns(pl.Series("title", ["x", None]))
    with pytest.raises(
        CatalogError, match=r"Titles.*'title', not_nullable: None \(b\.wav\).*str_length.*'x' \(a\.wav\)"
    ):
        check_metadata(bad, f"{HERE}:Titles")


@pytest.mark.parametrize("reference", [f"{HERE}:NOT_A_SCHEMA", f"{HERE}:Gone", "no.such.module:x", "tests"])
def test_a_missing_schema_is_a_config_error(reference):
    with pytest.raises(ConfigError, match=f"source.schema {reference}"):
        load_schema(reference)


@pytest.mark.parametrize(
    ("column", "accepted", "rejected"),
    [
        ("key", "k", ""),
        ("path", "p", ""),
        ("num_bytes", 1, 0),
        ("num_frames", 1, 0),
        ("sample_rate_hz", 1, 0),
        ("num_channels", 1, 0),
        ("bits_per_sample", 1, 0),
        ("bits_per_sample", 64, 65),
        ("duration_seconds", 0.5, 0.0),
    ],
)
def test_numbers_and_texts_of_the_catalog_have_limits(catalog, column, accepted, rejected):
    first, dtype = catalog.recordings.head(1), catalog.recordings.schema[column]
    check_catalog(first.with_columns(pl.lit(accepted, dtype=dtype).alias(column)), catalog.rejected)
    with pytest.raises(CatalogError, match=rf"the catalog .*column '{column}'"):
        check_catalog(first.with_columns(pl.lit(rejected, dtype=dtype).alias(column)), catalog.rejected)


@pytest.mark.parametrize(("number", "shown", "more"), [(5, 5, ""), (7, 5, " and 2 more")])
def test_five_values_of_a_failed_check_are_shown(catalog, number, shown, more):
    rows = pl.concat([catalog.recordings.head(1)] * number).with_columns(
        pl.Series("key", [f"key{n}" for n in range(number)]),
        pl.Series("path", [f"{n}.wav" for n in range(number)]),
        pl.lit(-3, dtype=pl.Int64).alias("num_frames"),
    )
    with pytest.raises(CatalogError) as raised:
        check_catalog(rows, catalog.rejected)
    text = str(raised.value)
    assert text.count("'-3' (") == shown
    assert text.endswith(f"'-3' ({shown - 1}.wav){more}")


def test_a_check_of_the_complete_table_names_no_path(catalog):
    with pytest.raises(
        CatalogError, match=r"the catalog does not pass its checks: columns, column_in_dataframe: 'num_f"
    ):
        check_catalog(catalog.recordings.drop("num_frames"), catalog.rejected)
