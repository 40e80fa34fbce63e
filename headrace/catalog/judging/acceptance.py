"""Decides which files of a scan become recordings and which are rejected, with a reason for each rejection. Pure.

That is for `source.samples: files`; `headrace.catalog.judging.row_acceptance` decides about rows.

The decisions here depend on settings, on the metadata or on other files: keys, duplicates, exclusions, the shortest
length. Facts of one file alone come from `headrace.catalog.scanning.probing`. The functions take and return tables.
`judge_files` judges a part of the files, with all metadata rows that name them. `decide_files` decides between files of
all parts that have the same key or content (`headrace.catalog.judging.rivals`). `finish_files` makes the recordings of
a part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from headrace.audio import AudioFormat
from headrace.catalog.judging.exclusions import SEPARATOR, Exclusions, find_exclusions
from headrace.catalog.judging.recording_digests import is_part_of_file, recording_digests
from headrace.catalog.rows.field_files import field_file_facts
from headrace.catalog.rows.metadata_rows import MetadataRows, rejected_metadata_rows
from headrace.catalog.rows.row_columns import EXPLICIT_KEY
from headrace.catalog.rows.schemas import (
    FACT_SCHEMA,
    FILE_SCHEMA,
    OWN_COLUMNS,
    RECORDING_SCHEMA,
    REJECTED_SCHEMA,
    seconds_of,
)
from headrace.config.source import ColumnsConfig, Duplicates, JsonContent, KeyForm, SampleKind
from headrace.config.tables import ColumnType
from headrace.format.keys import KEY_PATTERN, MAX_KEY_LENGTH, SEGMENT_SUFFIX, sample_keys, shown_key, slug_keys
from headrace.format.rejects import RejectReason, RejectSubject

_Verdict = tuple[str, RejectReason, str]
_KEY_TAKEN = (
    "has the key '{}', which {} already has: keys must differ; leave the cell in the metadata's key column empty to "
    "derive the key from the path, or, if that column does not hold keys, remove source.columns.key"
)
_IS_SPAN = "\0is_span"
_VERDICT_SCHEMA = {"path": pl.String, "\0code": pl.String, "\0reason": pl.String}


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of a scan, from the data set's YAML.

    Attributes:
        settle_seconds: a file that changed more recently may still be being written; it is left for the next scan.
        min_seconds: shorter recordings are rejected.
        samples: what becomes a sample.
        columns: which columns of the metadata have a meaning.
        where: the condition that rows of the metadata fulfil; other rows are left out.
        fields: audio field → column with the path of its file, if rows are samples.
        key_form: what to do with keys that have other characters than a key may have.
        span_tolerance_seconds: a span that ends at most this much after its recording's end is cut there.
        duplicates: what to do with recordings that have the same bytes.
        excluded: keys of recordings and of segments to leave out.
        audio: how recordings are cut into segments.
        json_content: what the JSON of a sample holds, and so what the digest of a recording covers.
        path_columns: template of paths, whose names are columns.
        sidecars: extensions of sidecars.
        types: column → its declared type, for those of sidecars.
        has_own_rows: whether the rows are those of the corpus itself.
        rows: column of intervals of sidecars whose intervals are the samples; None if rows are those of a table.
    """

    settle_seconds: float = 5.0
    min_seconds: float = 0.0
    samples: SampleKind = SampleKind.FILES
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    where: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    key_form: KeyForm = KeyForm.AS_IS
    span_tolerance_seconds: float = 0.05
    duplicates: Duplicates = Duplicates.KEEP
    excluded: frozenset[str] = frozenset()
    audio: AudioFormat = field(default_factory=AudioFormat)
    json_content: JsonContent = JsonContent.EMBED
    path_columns: str | None = None
    sidecars: tuple[str, ...] = ()
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    has_own_rows: bool = False
    rows: str | None = None


def facts_of(recordings: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    """Facts that a catalog holds about each file (`FACT_SCHEMA`), one row per path.

    A file rejected for its key or its length has a valid header: its facts are kept, and the decision is made again. A
    file that could not be read has no facts, so that the next scan tries it again: a change of permissions does not
    change the file's stamp.
    """
    used = pl.concat([recordings.select(*FILE_SCHEMA), field_file_facts(recordings)])
    return pl.concat([good_facts(used), bad_facts(rejected)]).unique("path", keep="first")


def good_facts(files: pl.DataFrame) -> pl.DataFrame:
    """Usable files (`FILE_SCHEMA`) with the columns of `FACT_SCHEMA`."""
    no_verdict = [pl.lit(None, dtype=pl.String).alias(name) for name in ("code", "reason")]
    return files.with_columns(no_verdict).select(*FACT_SCHEMA)


def bad_facts(rejected: pl.DataFrame) -> pl.DataFrame:
    """Facts of the files in a rejected table that could be read (`FACT_SCHEMA`), see `facts_of`."""
    has_audio = pl.col("num_frames").is_not_null()
    return (
        rejected.filter((pl.col("origin") == RejectSubject.FILE) & pl.col("sha256").is_not_null())
        .with_columns(pl.when(~has_audio).then(pl.col("code", "reason")))
        .select(*FACT_SCHEMA)
    )


@dataclass(frozen=True, slots=True)
class FileVerdicts:
    """A part of the files, or of the rows that name them, judged without regard to other parts.

    Attributes:
        candidates: usable files with their metadata, or rows with the facts of their files; those with `code` and
            `reason` are rejected.
        rejected: rejected files and rows that are not among the candidates (`REJECTED_SCHEMA`).
        unmatched: rows of the metadata table that match no file: `path`, `key`, `code`, `reason`.
        unknown: keys of `exclude` that name nothing in this part.
        waiting: files of rows that wait for another file: `path`, `code`, `reason`.
        num_waiting: rows that wait for files that are left for the next scan.
    """

    candidates: pl.DataFrame
    rejected: pl.DataFrame
    unmatched: pl.DataFrame
    unknown: frozenset[str]
    waiting: pl.DataFrame
    num_waiting: int = 0


NO_FILES = pl.DataFrame(schema={"path": pl.String, "code": pl.String, "reason": pl.String})


def judge_files(
    facts: pl.DataFrame, rows: MetadataRows, unsettled: pl.Series, settings: CatalogSettings
) -> FileVerdicts:
    """Judge a part of the files of a source.

    Args:
        facts: one row per file (`FACT_SCHEMA`); unusable files have `code` and `reason`.
        rows: the rows of the metadata table that name these files or no file.
        unsettled: paths of the part that are left for the next scan; rows of the metadata table may name them.
        settings: the settings of the scan.
    """
    facts = facts.sort("path")
    is_good = pl.col("code").is_null()
    sound, damaged = facts.filter(is_good), facts.filter(~is_good)
    candidates = _with_keys(
        sound.with_columns(
            start_frame=pl.lit(0, dtype=pl.Int64),  # a whole file is one row
            stop_frame="num_frames",
            channels=pl.lit(None, dtype=pl.String),
            field_files=pl.lit(None, dtype=pl.String),
            duration_seconds=seconds_of(pl.col("num_frames"), pl.col("sample_rate_hz")),
        ),
        rows,
        settings.key_form,
    )
    excluded = _exclusions(candidates, [damaged["path"], unsettled], rows, settings)
    return FileVerdicts(
        _reject_each(_exclude(candidates, excluded), settings.min_seconds),
        rejected_rows(damaged, RejectSubject.FILE),
        rejected_metadata_rows(rows, pl.concat([facts["path"], unsettled])),
        frozenset(excluded.unknown),
        NO_FILES,
    )


def decide_files(rivals: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """The candidates of all parts that have the same key or bytes, with verdicts, sorted by path."""
    rivals = rivals.sort("path")
    return _reject_copies(rivals) if settings.duplicates == Duplicates.DROP else _reject_taken_keys(rivals)


def finish_files(candidates: pl.DataFrame, settings: CatalogSettings) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The recordings of a part, sorted by path, and its candidates and segments that are rejected."""
    is_good = pl.col("code").is_null()
    recordings = finished_recordings(candidates.filter(is_good).drop(EXPLICIT_KEY), settings.json_content)
    rejected = [
        rejected_rows(candidates.filter(~is_good), RejectSubject.FILE),
        rejected_rows(_excluded_segments(recordings), RejectSubject.EXCLUDE),
    ]
    return recordings, pl.concat(rejected)


REJECT_ORDER = ("path", "origin", "key", "reason")
"""The columns by which the rejected table is sorted, nulls last."""


def sorted_rejects(rejected: pl.DataFrame) -> pl.DataFrame:
    """The rejected table in its defined order."""
    return rejected.sort(REJECT_ORDER, nulls_last=True)


def with_decode_rejects(rejected: pl.DataFrame, found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The rejected table with other rows of origin `decode`: those of `found`, from `decode_rejects`."""
    others = rejected.filter(pl.col("origin") != RejectSubject.DECODE)
    return sorted_rejects(pl.concat([others, *found]))


def decode_rejects(recordings: pl.DataFrame, faults: pl.DataFrame) -> pl.DataFrame:
    """Rows for the rejected table, for recordings and spans that could not be decoded, with `code` and `reason`.

    Args:
        recordings: the recordings table.
        faults: `path`, `code`, `reason`, and `key`; a fault without a key is of the whole file. With a column `sha256`,
            a row is left out if its recording has other bytes now or is gone.
    """
    on = ["path", "sha256"] if "sha256" in faults.columns else ["path"]
    is_span = is_part_of_file()
    rows = recordings.select("key", is_span.alias(_IS_SPAN), *(FACT_SCHEMA.keys() - {"code", "reason"}))
    if "key" not in faults.columns:
        faults = faults.with_columns(key=pl.lit(None, dtype=pl.String))
    has_key = pl.col("key").fill_null("") != ""
    of_keys = faults.filter(has_key).select(*on, "key", "code", "reason").unique("key", keep="first")
    of_files = faults.filter(~has_key).select(*on, "code", "reason").unique("path", keep="first")
    found = [rows.join(of_keys, on=[*on, "key"]), rows.filter(~pl.col(_IS_SPAN)).join(of_files, on=on)]
    return rejected_rows(pl.concat(found, how="diagonal"), RejectSubject.DECODE)


def _with_keys(files: pl.DataFrame, rows: MetadataRows, form: KeyForm) -> pl.DataFrame:
    """Files with the metadata columns and with `key`: the user's key, or one made from the path."""
    joined = files.join(rows.joinable(), on="path", how="left", maintain_order="left")
    return joined.with_columns(key=pl.coalesce(formed(joined[EXPLICIT_KEY], form), sample_keys(joined["path"])))


def formed(keys: pl.Series, form: KeyForm) -> pl.Series:
    """The user's keys in the form that `source.key_form` asks for."""
    return slug_keys(keys) if form == KeyForm.SLUG else keys


def _exclusions(
    candidates: pl.DataFrame, others: Iterable[pl.Series], rows: MetadataRows, settings: CatalogSettings
) -> Exclusions:
    """The recordings and segments to exclude. `others` are paths of files that are damaged or not scanned yet."""
    if not settings.excluded:
        return Exclusions()
    elsewhere = _with_keys(pl.concat(others).to_frame("path"), rows, settings.key_form)["key"]
    return find_exclusions(settings.excluded, candidates, elsewhere, settings.audio)


def _exclude(candidates: pl.DataFrame, excluded: Exclusions) -> pl.DataFrame:
    """Candidates with `excluded_segments`; a candidate that is excluded entirely is rejected."""
    path = pl.col("path")
    parts = path.replace_strict(excluded.segments, default=None, return_dtype=pl.String)
    keys = path.replace_strict(excluded.recordings, default=None, return_dtype=pl.String)
    marked = candidates.with_columns(excluded_segments=parts)
    return with_rejects(marked, keys.is_not_null(), RejectReason.EXCLUDED, pl.format("left out by exclude: {}", keys))


def _excluded_segments(recordings: pl.DataFrame) -> pl.DataFrame:
    """One row for each excluded segment of a recording that is not excluded itself."""
    segments = recordings.filter(pl.col("excluded_segments").is_not_null()).with_columns(
        key=pl.col("excluded_segments").str.split(SEPARATOR)
    )
    return segments.explode("key").select(
        "path", "key", code=pl.lit(RejectReason.EXCLUDED), reason=pl.format("left out by exclude: {}", "key")
    )


def unknown_exclusions(keys: Iterable[str]) -> pl.DataFrame:
    """One row for each key of `exclude` that names no sample."""
    return pl.DataFrame({"key": keys}, schema={"key": pl.String}).with_columns(
        path=pl.lit(""),
        code=pl.lit(RejectReason.EXCLUDES_NOTHING),
        reason=pl.format("the key {} in exclude names no sample", "key"),
    )


def _reject_each(candidates: pl.DataFrame, min_seconds: float) -> pl.DataFrame:
    """RejectReason recordings that are too short or have an invalid key."""
    seconds, key = pl.col("duration_seconds"), pl.col("key")
    is_key = key.str.contains(KEY_PATTERN) & ~key.str.contains(SEGMENT_SUFFIX) & (key.str.len_chars() <= MAX_KEY_LENGTH)
    bad_key = (
        f"'{{}}' in the metadata's key column is not a valid key: use 1 to {MAX_KEY_LENGTH} of A-Z a-z 0-9 _ -, not "
        "ending in -s and six digits, or leave the cell empty; if the column does not hold keys, "
        "remove source.columns.key; source.key_form: slug makes keys of other texts"
    )
    too_short = pl.format(f"{{}} seconds long, shorter than min_seconds: {min_seconds:g}", seconds.round(6))
    return with_rejects(
        with_rejects(candidates, seconds < min_seconds, RejectReason.TOO_SHORT, too_short),
        ~is_key,
        RejectReason.BAD_KEY,
        pl.format(bad_key, shown_key(key)),
    )


def _reject_taken_keys(candidates: pl.DataFrame) -> pl.DataFrame:
    """RejectReason all but the first path of each key. A file that is already rejected does not occupy its key."""
    stays = pl.col("code").is_null()
    if candidates.filter(stays)["key"].is_unique().all():
        return candidates
    holder = pl.col("path").filter(stays).first().over("key")
    reason = pl.format(_KEY_TAKEN, pl.col("key"), holder)
    return with_rejects(candidates, holder != pl.col("path"), RejectReason.DUPLICATE_KEY, reason)


def _reject_copies(candidates: pl.DataFrame) -> pl.DataFrame:
    """RejectReason all but the first path of each content, and of each key.

    Paths are decided in order: a file that is rejected occupies neither its key nor its content.
    """
    stays = candidates.filter(pl.col("code").is_null())
    rivals = stays.filter(pl.col("sha256").is_duplicated() | pl.col("key").is_duplicated())
    by_content: dict[str, str] = {}
    by_key: dict[str, str] = {}
    verdicts: list[_Verdict] = []
    for path, content, key in rivals.select("path", "sha256", "key").iter_rows():
        if content in by_content:
            reason = f"has the same bytes as {by_content[content]}, which is kept (source.duplicates: drop)"
            verdicts.append((path, RejectReason.DUPLICATE, reason))
        elif key in by_key:
            verdicts.append((path, RejectReason.DUPLICATE_KEY, _KEY_TAKEN.format(key, by_key[key])))
        else:
            by_content[content] = by_key[key] = path
    if not verdicts:
        return candidates
    found = pl.DataFrame(verdicts, schema=_VERDICT_SCHEMA, orient="row")
    joined = candidates.join(found, on="path", how="left", maintain_order="left")
    return joined.with_columns(code=pl.coalesce("code", "\0code"), reason=pl.coalesce("reason", "\0reason")).drop(
        "\0code", "\0reason"
    )


def with_rejects(rows: pl.DataFrame, condition: pl.Expr, code: str, reason: pl.Expr) -> pl.DataFrame:
    """Reject the rows that meet the condition and are not rejected yet; returns all rows."""
    newly = pl.col("code").is_null() & condition
    if not rows.select(newly.any()).item():
        return rows
    return rows.with_columns(
        pl.when(newly).then(pl.lit(str(code))).otherwise("code").alias("code"),
        pl.when(newly).then(reason).otherwise("reason").alias("reason"),
    )


def finished_recordings(judged: pl.DataFrame, content: JsonContent) -> pl.DataFrame:
    """The finished recordings table: with digests, and Headrace's own columns first."""
    flagged = judged.drop("code", "reason")
    if "sidecars" not in flagged.columns:
        flagged = flagged.with_columns(pl.lit(None, dtype=pl.String).alias("sidecars"))
    own = [name for name in flagged.columns if name in OWN_COLUMNS]
    hashed = flagged if content == JsonContent.EMBED else flagged.select(own)
    finished = flagged.with_columns(recording_digests(hashed))
    return finished.select(*RECORDING_SCHEMA, *(name for name in flagged.columns if name not in OWN_COLUMNS))


def rejected_rows(rows: pl.DataFrame, origin: RejectSubject) -> pl.DataFrame:
    """The rows with the columns of `REJECTED_SCHEMA`; missing values are null."""
    known = rows.with_columns(pl.lit(str(origin)).alias("origin"))
    return known.select(
        pl.col(name).cast(dtype) if name in known.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in REJECTED_SCHEMA.items()
    )
