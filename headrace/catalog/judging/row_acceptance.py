"""Decides which rows of the metadata table become samples (`source.samples: rows`), and which are rejected. Pure.

Every row is accepted, rejected, merged with an equal row, or waits for a file that has not settled. Every file has an
accepted row, or is rejected. The functions correspond to those of `headrace.catalog.judging.acceptance`.
"""

from dataclasses import dataclass

import polars as pl

from headrace.catalog.judging.acceptance import (
    CatalogSettings,
    FileVerdicts,
    finished_recordings,
    formed,
    rejected_rows,
    with_rejects,
)
from headrace.catalog.judging.row_fields import LENGTH, WAITS, FieldFacts, with_field_files, with_fields
from headrace.catalog.rows.metadata_rows import MetadataRows, rejected_metadata_rows
from headrace.catalog.rows.row_columns import (
    CHANNELS,
    DURATION,
    END,
    EXPLICIT_KEY,
    ROW_NUMBER,
    SPAN_FAULT,
    START,
    ours,
    path_columns,
    row_name,
    row_said,
)
from headrace.catalog.rows.schemas import CONTENT, seconds_of
from headrace.config.source import Duplicates
from headrace.format.keys import KEY_PATTERN, MAX_KEY_LENGTH, sample_keys, shown_key, span_keys
from headrace.format.rejects import RejectReason, RejectSubject
from headrace.format.segment_keys import SPAN_END

IS_CUT = "\0is_cut"
"""Whether a row's span was cut at its recording's end."""
ROW_ORDER = ["path", "start_frame", "stop_frame", ROW_NUMBER]
"""The order of accepted rows."""

_RECORDING_KEY = "\0recording_key"
_FILE_REASON = "\0file_reason"
_SCRATCH = (_RECORDING_KEY, IS_CUT, WAITS, LENGTH)


@dataclass(frozen=True, slots=True)
class FileUses:
    """Which rows name the files of a part, those of other parts included.

    Attributes:
        named: files that candidates name, with the verdicts of the rows: `path`, `code`, `reason`.
        waiting: files of rows that wait for another file: `path`, `code`, `reason`.
    """

    named: pl.DataFrame
    waiting: pl.DataFrame


def judge_rows(
    facts: pl.DataFrame,
    rows: MetadataRows,
    unsettled: pl.Series,
    settings: CatalogSettings,
    of_fields: FieldFacts | None = None,
) -> FileVerdicts:
    """Judge the rows of the metadata table that name a part of the files.

    Args:
        facts: as in `judge_files`, like `rows`, `unsettled` and `settings`.
        rows: the paths of their other audio fields are spelled as the source spells them.
        unsettled: paths of the part that are left for the next scan.
        settings: the settings of the scan.
        of_fields: the files of the other fields; None if rows name one file each.
    """
    facts = facts.sort("path")
    is_good = pl.col("code").is_null()
    sound, damaged = facts.filter(is_good), facts.filter(~is_good)
    of_files = with_fields(_of_files(rows, sound), of_fields or FieldFacts(facts, unsettled), settings)
    waiting = of_files.filter(pl.col(WAITS))
    ready = _with_frames(of_files.filter(~pl.col(WAITS)), settings.span_tolerance_seconds)
    judged = _judged(_with_keys(_with_channels(ready, settings), settings), settings)
    known = pl.concat([facts["path"], unsettled])
    rejected = [
        rejected_rows(damaged, RejectSubject.FILE),
        rejected_rows(_of_rejected_files(rows, damaged), RejectSubject.METADATA),
    ]
    return FileVerdicts(
        judged,
        pl.concat(rejected),
        rejected_metadata_rows(rows, known, of_corpus=settings.has_own_rows),
        _unknown_keys(settings, judged, rows, known),
        named_files(waiting),
        rows.table.filter(pl.col("path").is_in(unsettled.implode())).height + waiting.height,
    )


def decide_rows(rivals: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """The rows of all parts that have the same key or audio, with verdicts, in the order of the recordings."""
    if settings.duplicates == Duplicates.DROP:
        rivals = _reject_all_but_first(
            rivals,
            CONTENT,
            RejectReason.DUPLICATE,
            "has the same audio as {}, which is kept (source.duplicates: drop)",
        )
    return _reject_all_but_first(
        rivals,
        ("key",),
        RejectReason.DUPLICATE_KEY,
        "has the key '{}', which {} already has: keys must differ; source.columns.key names a column of keys",
        pl.col("key"),
    ).sort(ROW_ORDER)


def finish_rows(
    candidates: pl.DataFrame, facts: pl.DataFrame, of_fields: pl.DataFrame, uses: FileUses, settings: CatalogSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The accepted rows of a part, sorted by path, span and row, and its rejected rows and files.

    Args:
        candidates: rows with all verdicts.
        facts: the files of the part (`FACT_SCHEMA`).
        of_fields: all files that these rows name (`FACT_SCHEMA`), one row per path.
        uses: which rows name the files of the part.
        settings: the settings of the scan.
    """
    is_good = pl.col("code").is_null()
    accepted = candidates.filter(is_good).sort(ROW_ORDER)
    finished = with_field_files(accepted, of_fields, settings).drop(*ours(accepted), *_SCRATCH)
    recordings = finished_recordings(finished, settings.json_content)
    lost = candidates.filter(~is_good).select("path", "key", "code", "reason")
    bare = _without_samples(facts.sort("path").filter(is_good), uses, settings.rows)
    rejected = [rejected_rows(bare, RejectSubject.FILE), rejected_rows(lost, RejectSubject.METADATA)]
    return recordings, pl.concat(rejected)


def _of_files(rows: MetadataRows, sound: pl.DataFrame) -> pl.DataFrame:
    """The rows of usable files with the facts of their files, in the table's order."""
    return rows.table.join(sound, on="path", how="inner", maintain_order="left")


def _of_rejected_files(rows: MetadataRows, damaged: pl.DataFrame) -> pl.DataFrame:
    """A reject for each row of a file that is rejected."""
    files = damaged.select("path", pl.col("reason").alias(_FILE_REASON))
    found = rows.table.join(files, on="path", how="inner", maintain_order="left")
    reason = row_said("names {}, which is rejected: {}", pl.col("path"), pl.col(_FILE_REASON))
    return found.select(
        "path", pl.col(EXPLICIT_KEY).alias("key"), code=pl.lit(str(RejectReason.FILE_REJECTED)), reason=reason
    )


def _with_frames(candidates: pl.DataFrame, tolerance_seconds: float) -> pl.DataFrame:
    """Rows with `start_frame`, `stop_frame`, `duration_seconds`; rows whose span is not in the recording are rejected.

    Frames are computed in float64 at the recording's own rate: seconds times rate, plus a half, rounded down.
    """
    rate, length = pl.col("sample_rate_hz").cast(pl.Float64), pl.col(LENGTH).cast(pl.Float64)
    start = (pl.col(START) * rate + 0.5).floor().fill_null(0.0)
    wanted = pl.coalesce(start + (pl.col(DURATION) * rate + 0.5).floor(), (pl.col(END) * rate + 0.5).floor(), length)
    tolerance = (tolerance_seconds * rate + 0.5).floor()
    stop = pl.min_horizontal(wanted, length)
    seconds, start_seconds = seconds_of(length, rate), seconds_of(start, rate)
    verdicts = (
        (RejectReason.BAD_SPAN, pl.col(SPAN_FAULT).is_not_null(), row_said("{}", pl.col(SPAN_FAULT))),
        (
            RejectReason.OUTSIDE_RECORDING,
            (start > length) | ((start == length) & (wanted > start)),
            row_said("begins at {} s, but {} ends at {} s", start_seconds, pl.col("path"), seconds),
        ),
        (
            RejectReason.OUTSIDE_RECORDING,
            wanted > length + tolerance,
            row_said(
                "ends at {} s, but {} ends at {} s; source.span_tolerance_seconds is {}",
                seconds_of(wanted, rate),
                pl.col("path"),
                seconds,
                pl.lit(tolerance_seconds),
            ),
        ),
        (
            RejectReason.EMPTY_SPAN,
            stop <= start,
            row_said("has an empty span: it begins and ends at {} s of {}", start_seconds, pl.col("path")),
        ),
    )
    for code, condition, reason in verdicts:
        candidates = with_rejects(candidates, condition, code, reason)
    return candidates.with_columns(
        start.cast(pl.Int64, strict=False).alias("start_frame"),
        stop.cast(pl.Int64, strict=False).alias("stop_frame"),
        seconds_of(stop - start, rate).alias("duration_seconds"),
        (wanted > length).alias(IS_CUT),
    )


def _with_channels(candidates: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """Rows with `channels`; rows whose channels are not valid, or that their recording lacks, are rejected."""
    column, given = pl.lit(settings.columns.channel), pl.col(CHANNELS)
    is_fault = given.str.starts_with("?").fill_null(value=False)
    channels = pl.when(~is_fault).then(given)
    highest = channels.str.split("-").list.eval(pl.element().cast(pl.Int64)).list.max()
    expected = "has {}: {}, expected the number of a channel from 0, a list of numbers, A or B"
    lacking = "has {}: {}, but {} has {} channels, whose numbers begin at 0"
    verdicts = (
        (is_fault, row_said(expected, column, given.str.slice(1))),
        (
            (highest >= pl.col("num_channels")).fill_null(value=False),
            row_said(lacking, column, highest, pl.col("path"), pl.col("num_channels")),
        ),
    )
    for condition, reason in verdicts:
        candidates = with_rejects(candidates, condition, RejectReason.BAD_CHANNEL, reason)
    return candidates.with_columns(channels.alias("channels"))


def _with_keys(candidates: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """Rows with `key`: the user's key, or one made from path, channels and span."""
    recordings = sample_keys(candidates["path"])
    derived = span_keys(recordings, *candidates.select("start_frame", "stop_frame", "channels"))
    explicit = formed(candidates[EXPLICIT_KEY], settings.key_form)
    return candidates.with_columns(
        recordings.alias(_RECORDING_KEY),
        pl.lit(None, dtype=pl.String).alias("excluded_segments"),
        pl.select(pl.coalesce(explicit, derived)).to_series().alias("key"),
    )


def _judged(candidates: pl.DataFrame, settings: CatalogSettings) -> pl.DataFrame:
    """Rows that are excluded, too short or have an invalid key are rejected."""
    key, seconds = pl.col("key"), pl.col("duration_seconds")
    excluded = list(settings.excluded)
    is_named = key.is_in(excluded) | pl.col(_RECORDING_KEY).is_in(excluded)
    too_short = "is {} seconds long, shorter than min_seconds: {}"
    bad_key = (
        f"has the key '{{}}', which is not a valid key: use 1 to {MAX_KEY_LENGTH} of A-Z a-z 0-9 _ -, or leave the "
        "cell empty; source.key_form: slug makes keys of other texts"
    )
    is_key = key.str.contains(KEY_PATTERN) & (key.str.len_chars() <= MAX_KEY_LENGTH)
    verdicts = (
        (RejectReason.EXCLUDED, is_named, row_said("is left out by exclude: {}", key)),
        (
            RejectReason.TOO_SHORT,
            seconds < settings.min_seconds,
            row_said(too_short, seconds.round(6), pl.lit(settings.min_seconds)),
        ),
        (RejectReason.BAD_KEY, ~is_key, row_said(bad_key, shown_key(key))),
    )
    for code, condition, reason in verdicts:
        candidates = with_rejects(candidates, condition, code, reason)
    return candidates


def _reject_all_but_first(
    candidates: pl.DataFrame, same: tuple[str, ...], code: RejectReason, sentence: str, *values: pl.Expr
) -> pl.DataFrame:
    """Reject all but the first row of those that have the same values. A rejected row does not count as the first."""
    stays = pl.col("code").is_null()
    holder = pl.col(ROW_NUMBER).filter(stays).min().over(same)
    name = row_name().filter(stays & (pl.col(ROW_NUMBER) == holder)).first().over(same)
    return with_rejects(candidates, holder != pl.col(ROW_NUMBER), code, row_said(sentence, *values, name))


def _without_samples(sound: pl.DataFrame, uses: FileUses, of_sidecars: str | None) -> pl.DataFrame:
    """A reject for each usable file without an accepted row. Files of rows that wait are not rejected for that.

    Args:
        sound: the usable files.
        uses: which rows name them.
        of_sidecars: the column of sidecars whose intervals are the rows; None for rows of a table.
    """
    used = pl.concat([uses.named.filter(pl.col("code").is_null()).select("path"), uses.waiting.select("path")])
    bare = sound.join(used, on="path", how="anti", maintain_order="left")
    first = uses.named.select("path", pl.col("code").alias("\0code"), pl.col("reason").alias(_FILE_REASON))
    found = bare.join(first.unique("path", keep="first", maintain_order=True), on="path", how="left")
    none = "no row of the metadata table names it (source.samples: rows)"
    if of_sidecars is not None:
        none = f"no sidecar of it has an interval in column {of_sidecars!r} (source.rows)"
    return found.with_columns(
        code=pl.coalesce("\0code", pl.lit(str(RejectReason.NO_ROW))),
        reason=pl.coalesce(pl.format("none of its rows becomes a sample: {}", _FILE_REASON), pl.lit(none)),
    )


def named_files(rows: pl.DataFrame) -> pl.DataFrame:
    """The files that rows name, with the rows' verdicts: `path`, `code`, `reason`."""
    return pl.concat([rows.select(pl.col(name).alias("path"), "code", "reason") for name in path_columns(rows)])


def _unknown_keys(
    settings: CatalogSettings, judged: pl.DataFrame, rows: MetadataRows, paths: pl.Series
) -> frozenset[str]:
    """Keys of `exclude` that name no row and no file."""
    if not settings.excluded:
        return frozenset()
    of_files = set(sample_keys(paths))
    named = of_files.union(judged["key"].drop_nulls(), formed(rows.table[EXPLICIT_KEY], settings.key_form).drop_nulls())
    waiting = pl.Series("key", sorted(settings.excluded - named), dtype=pl.String)
    of_spans = waiting.str.replace(SPAN_END, "")
    pairs = zip(waiting, of_spans, strict=True)
    return frozenset(key for key, recording in pairs if key == recording or recording not in of_files)
