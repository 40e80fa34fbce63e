"""What becomes of every file and of every row of the user's table: accepted or refused, with a reason. Pure.

Owns the decisions that hang on settings, on metadata or on other files: keys, duplicates, the shortest length. Facts of
one file alone come from `headrace.probing`. Tables in, tables out: whole columns at a time, no object per recording.
"""

import posixpath

import polars as pl

from headrace.catalog_digests import recording_digests
from headrace.catalog_tables import FACT_SCHEMA, OWN_COLUMNS, RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.errors import ConfigError
from headrace.keys import KEY_PATTERN, MAX_KEY_LENGTH, SEGMENT_SUFFIX, sample_keys
from headrace.metadata_columns import check_types, stored_names
from headrace.rejects import Origin, Reject

_EXPLICIT_KEY = "\0key"  # no user's column has such a name
_ROW = "\0row"
_COMPOSED, _FILE = "\0composed", "\0file"
_UNTIDY_PATH = r"(^|/)\.{0,2}(/|$)"
_NOT_ASCII = r"[^\x00-\x7F]"
_HIDDEN = r"(^|/)\."
_BASE_NAME = r"([^/]*)$"
_NAMESAKE = "\0namesake"
NAMESAKE_HINT = "paths are relative to source.uri, and one of that name is"
"""Stands in the reason of a row that names no file, where a file of the same name lies elsewhere in the source."""


def facts_of(recordings: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """What a catalog knows of each file from itself alone (`FACT_SCHEMA`), one row per path.

    A file refused for its key or its length has a sound header: the facts are kept, the verdict is made anew. A file
    that could not be read has no facts and is tried again: permissions change without changing its stamp.
    """
    no_verdict = [pl.lit(None, dtype=pl.String).alias(name) for name in ("code", "reason")]
    good = recordings.with_columns(no_verdict).select(*FACT_SCHEMA)
    has_audio = pl.col("num_frames").is_not_null()
    bad = (
        rejected.filter((pl.col("origin") == Origin.FILE) & pl.col("sha256").is_not_null())
        .with_columns(pl.when(~has_audio).then(pl.col("code", "reason")))
        .select(*FACT_SCHEMA)
    )
    return pl.concat([good, bad]).unique("path", keep="first", maintain_order=True)


def accepted_and_rejected(
    facts: pl.DataFrame,
    metadata: pl.DataFrame | None,
    unsettled: pl.Series,
    *,
    min_seconds: float,
    key_column: str | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The recordings and rejected tables, both sorted by path.

    Args:
        facts: one row per file (`FACT_SCHEMA`), refused ones with `code` and `reason`.
        metadata: the user's table with a column `path`, or None.
        unsettled: paths left for the next scan; rows of the user's table may name them.
        min_seconds: shorter recordings are refused.
        key_column: which of the user's columns gives keys; None for none.

    Raises:
        ConfigError: the user's table lacks `path`, or has a column that cannot be kept.
    """
    facts = facts.sort("path")
    known = pl.concat([facts["path"], unsettled])
    without = pl.DataFrame(schema={"path": pl.String})
    table = _tidy(without, None) if metadata is None else _tidy(metadata, key_column)
    table = _spelled_as_files(table, known)
    is_good = pl.col("code").is_null()
    candidates = (
        facts.filter(is_good)
        .with_columns(duration_seconds=pl.col("num_frames") / pl.col("sample_rate_hz"))
        .join(_first_rows(table).drop(_ROW), on="path", how="left", maintain_order="left")
        .with_columns(key=pl.lit(None, dtype=pl.String))
    )
    judged = _refuse_taken_keys(_refuse_alone(_with_keys(candidates), min_seconds)).drop(_EXPLICIT_KEY)
    rejected = [
        _rejected_rows(facts.filter(~is_good), Origin.FILE),
        _rejected_rows(judged.filter(~is_good), Origin.FILE),
        _rejected_rows(_refused_metadata(table, known), Origin.METADATA),
    ]
    return _recordings(judged.filter(is_good)), sorted_rejects(pl.concat(rejected))


def sorted_rejects(rejected: pl.DataFrame) -> pl.DataFrame:
    """The one order of the rejected table."""
    return rejected.sort("path", "origin", "reason", nulls_last=True)


def decode_rejects(recordings: pl.DataFrame, faults: pl.DataFrame) -> pl.DataFrame:
    """Rows for the rejected table: recordings (`path`) that proved undecodable, with `code` and `reason`.

    A fault stays true of the same bytes only: with a column `sha256` in `faults`, rows whose recording changed since,
    or is gone, are left out.
    """
    on = ["path", "sha256"] if "sha256" in faults.columns else ["path"]
    found = recordings.select(*(FACT_SCHEMA.keys() - {"code", "reason"})).join(
        faults.select(*on, "code", "reason").unique("path", keep="first", maintain_order=True), on=on
    )
    return _rejected_rows(found, Origin.DECODE)


def _tidy(metadata: pl.DataFrame, key_column: str | None) -> pl.DataFrame:
    """The user's table under the catalog's column names, with plain relative paths, keys and row numbers from 1."""
    if "path" not in metadata.columns:
        raise ConfigError(f"the metadata table has no column 'path'; its columns are {', '.join(metadata.columns)}")
    check_types(metadata)
    if key_column is not None and key_column not in metadata.columns:
        raise ConfigError(
            f"source.key_column: the metadata table has no column {key_column!r}; its columns are "
            f"{', '.join(metadata.columns)}"
        )
    key = pl.lit(None, dtype=pl.String) if key_column is None else pl.col(key_column).cast(pl.String)
    names = stored_names(name for name in metadata.columns if name not in {"path", key_column})
    table = metadata.select(
        pl.col("path").cast(pl.String),
        key.replace("", None).alias(_EXPLICIT_KEY),
        pl.int_range(1, pl.len() + 1).alias(_ROW),
        *(pl.col(name).alias(stored) for name, stored in names.items()),
    )
    untidy = table["path"].str.contains(_UNTIDY_PATH).fill_null(value=False)
    if not untidy.any():
        return table
    pairs = zip(table["path"], untidy, strict=True)
    paths = [posixpath.normpath(path) if path and is_untidy else path for path, is_untidy in pairs]
    return table.with_columns(path=pl.Series(paths, dtype=pl.String))


def _spelled_as_files(table: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """The user's table, its paths as the files spell them: a letter with an accent is one character or two.

    macOS, and archives that are made there, take such letters apart (Unicode's NFD); most editors put them together
    (NFC). A path gets the name of the one file that differs from it in nothing else.
    """
    if not table["path"].str.contains(_NOT_ASCII).any():
        return table
    path, composed = pl.col("path"), pl.col("path").str.normalize("NFC").alias(_COMPOSED)
    files = pl.DataFrame({"path": known}).select(composed, path.alias(_FILE)).filter(pl.col(_COMPOSED).is_unique())
    found = table.with_columns(composed).join(files, on=_COMPOSED, how="left", maintain_order="left")
    return found.with_columns(path=pl.coalesce(_FILE, "path")).drop(_COMPOSED, _FILE)


def _first_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that count: the first of each path."""
    return table.filter(pl.col("path").is_not_null() & pl.col("path").is_first_distinct())


def _with_keys(candidates: pl.DataFrame) -> pl.DataFrame:
    derived = sample_keys(candidates["path"])
    return candidates.with_columns(key=pl.coalesce(pl.col(_EXPLICIT_KEY), derived))


def _refuse_alone(candidates: pl.DataFrame, min_seconds: float) -> pl.DataFrame:
    """Verdicts that need no other recording: too short, or a key that cannot be one."""
    seconds, key = pl.col("duration_seconds"), pl.col("key")
    is_key = key.str.contains(KEY_PATTERN) & ~key.str.contains(SEGMENT_SUFFIX) & (key.str.len_chars() <= MAX_KEY_LENGTH)
    bad_key = (
        f"'{{}}' in the metadata's key column is no key: use 1 to {MAX_KEY_LENGTH} of A-Z a-z 0-9 _ -, not ending in "
        "-s and six digits, or leave the cell empty; if the column means something else, set source.key_column: null"
    )
    too_short = pl.format(f"{{}} seconds long, shorter than min_seconds: {min_seconds:g}", seconds.round(6))
    return _refused(
        _refused(candidates, seconds < min_seconds, Reject.TOO_SHORT, too_short),
        ~is_key,
        Reject.BAD_KEY,
        pl.format(bad_key, key),
    )


def _refuse_taken_keys(candidates: pl.DataFrame) -> pl.DataFrame:
    """All but the first path of each key are refused; what is refused already competes for no key."""
    stays = pl.col("code").is_null()
    if candidates.filter(stays)["key"].is_unique().all():
        return candidates
    holder = pl.col("path").filter(stays).first().over("key")
    way_out = (
        "has the key '{}', which {} has already: keys must differ; leave the cell of the metadata's key column empty "
        "to have the key made from the path, or, if that column is no key, set source.key_column: null"
    )
    reason = pl.format(way_out, pl.col("key"), holder)
    return _refused(candidates, holder != pl.col("path"), Reject.DUPLICATE_KEY, reason)


def _refused(rows: pl.DataFrame, condition: pl.Expr, code: Reject, reason: pl.Expr) -> pl.DataFrame:
    """The same rows, those that meet the condition refused; a first refusal stands."""
    newly = pl.col("code").is_null() & condition
    if not rows.select(newly.any()).item():
        return rows
    return rows.with_columns(
        pl.when(newly).then(pl.lit(str(code))).otherwise("code").alias("code"),
        pl.when(newly).then(reason).otherwise("reason").alias("reason"),
    )


def _recordings(judged: pl.DataFrame) -> pl.DataFrame:
    """The finished recordings table: duplicates flagged, digests made, our columns first."""
    first = pl.col("path").first().over("sha256")
    flagged = judged.drop("code", "reason").with_columns(duplicate_of=pl.when(first != pl.col("path")).then(first))
    finished = flagged.with_columns(recording_digests(flagged))
    return finished.select(*RECORDING_SCHEMA, *(name for name in flagged.columns if name not in OWN_COLUMNS))


def _refused_metadata(table: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """Rows of the user's table that join no file."""
    path, row = pl.col("path").fill_null(""), pl.col(_ROW)
    is_unknown = ~path.is_in(known.implode())
    leaves = path.str.starts_with("/") | path.str.contains(r"^\.\.(/|$)")
    rows = table.select("path", _ROW, code=pl.lit(None, dtype=pl.String), reason=pl.lit(None, dtype=pl.String))
    verdicts = [
        (Reject.BAD_NAME, path == "", "has no path"),
        (Reject.OUTSIDE_ROOT, leaves, "names a path outside the source root; write it relative to the root"),
        (
            Reject.METADATA_WITHOUT_FILE,
            is_unknown & path.str.contains(_HIDDEN),
            "names a hidden file or folder (begins with a dot), which are not looked at",
        ),
        (Reject.METADATA_WITHOUT_FILE, is_unknown, "names no file of the source"),
        (Reject.DUPLICATE_METADATA, ~path.is_first_distinct(), "names a path that an earlier row has; that one counts"),
    ]
    for code, condition, reason in verdicts:
        rows = _refused(rows, condition, code, pl.format(f"row {{}} of the metadata table {reason}", row))
    refused = rows.filter(pl.col("code").is_not_null())
    return _with_namesakes(refused, known).with_columns(path=path).drop(_ROW)


def _with_namesakes(refused: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """Refused rows; where a file of the same name lies elsewhere in the source, the reason says so."""
    base = pl.col("path").str.extract(_BASE_NAME)
    files = known.sort().to_frame("path").select(base.alias(_FILE), pl.col("path").alias(_NAMESAKE))
    named = refused.with_columns(base.alias(_FILE)).join(
        files.unique(_FILE, keep="first"), on=_FILE, how="left", maintain_order="left"
    )
    misses = pl.col("code").is_in([Reject.METADATA_WITHOUT_FILE, Reject.OUTSIDE_ROOT]) & pl.col(_NAMESAKE).is_not_null()
    hint = pl.format(f"{{}}; {NAMESAKE_HINT} {{}}", "reason", _NAMESAKE)
    return named.with_columns(reason=pl.when(misses).then(hint).otherwise("reason")).drop(_FILE, _NAMESAKE)


def _rejected_rows(rows: pl.DataFrame, origin: Origin) -> pl.DataFrame:
    """The rows under `REJECTED_SCHEMA`; what they do not know is null."""
    known = rows.with_columns(pl.lit(str(origin)).alias("origin"))
    return known.select(
        pl.col(name).cast(dtype) if name in known.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in REJECTED_SCHEMA.items()
    )
