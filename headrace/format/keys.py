"""Makes the keys of samples from the paths of recordings.

A derived key depends on the relative path of one recording alone, so it stays the same on every machine and when other
files are added or removed. Keys have no dots, because WebDataset ends a key at the first dot of a member's name.
"""

import hashlib

import polars as pl

KEY_PATTERN = r"^[A-Za-z0-9_-]+$"
SEGMENT_SUFFIX = r"-s[0-9]{6}$"
"""The end of the keys of segments; no recording's own key may end like this."""
MAX_KEY_LENGTH = 80
"""Leaves room for a segment number and an extension within the 100 characters of a plain tar header."""

_SLICE_ROWS = 10_000
_SLUG_LENGTH = 60
_DIGEST_LENGTH = 12
"""48 bits. Paths in a script other than Latin share one slug, and only these digits distinguish them: 40 bits would
collide for one in three corpora of a million such files, 48 bits for one in six hundred."""


def sample_keys(paths: pl.Series) -> pl.Series:
    """The derived key of each relative path: `drums/Kick 01.wav` gives `drums_Kick_01-` and 12 digits.

    The digits are the first of the SHA-256 of the path (UTF-8), so `printf %s PATH | sha256sum` shows them. The slug is
    the path without its extension, cut from the left: the file's own name says most.

    >>> sample_keys(pl.Series(["drums/Kick 01.wav"])).to_list()
    ['drums_Kick_01-eb520e8dc8c1']
    """
    slugs = _slugs(paths.str.replace(r"\.[^./]*$", "")).replace("", "recording")
    return (slugs + "-" + _digests(paths)).alias("key")


def shown_key(key: pl.Expr) -> pl.Expr:
    """A text that is no valid key, for reasons, which do not repeat a whole transcript."""
    return key.str.replace(rf"(?s)^(.{{{MAX_KEY_LENGTH}}}).+", "$1…")


def slug_keys(keys: pl.Series) -> pl.Series:
    """Keys in which only the allowed characters are left: `utt 1.a` gives `utt_1_a-` and 12 digits of its SHA-256.

    A key that is allowed is not changed; null stays null.

    >>> slug_keys(pl.Series(["utt 1.a", "utt-2"])).to_list()
    ['utt_1_a-541b1fa94dc3', 'utt-2']
    """
    is_key = keys.str.contains(KEY_PATTERN) & (keys.str.len_chars() <= MAX_KEY_LENGTH)
    odd = keys.filter(~is_key).unique()
    if odd.is_empty():
        return keys
    return keys.replace(odd, _slugs(odd).replace("", "key") + "-" + _digests(odd))


def span_keys(recordings: pl.Series, starts: pl.Series, stops: pl.Series, channels: pl.Series) -> pl.Series:
    """The derived key of spans, from the keys of their recordings, their channels, and their frames.

    A key of a recording that leaves too little room is cut from the left, so that its digits stay.

    Args:
        recordings: keys of the recordings.
        starts: first frames, at the recordings' own rates.
        stops: frames after the last ones.
        channels: text such as `1` or `0-1`; null for all channels.

    >>> values = ["dawn-eb520e8dc8c1"] * 2, [0, 0], [16_000, 500], pl.Series([None, "1"], dtype=pl.String)
    >>> span_keys(*map(pl.Series, values)).to_list()
    ['dawn-eb520e8dc8c1-f0-16000', 'dawn-eb520e8dc8c1-c1-f0-500']
    """
    ends = ("-c" + channels).fill_null("") + "-f" + starts.cast(pl.String) + "-" + stops.cast(pl.String)
    keys = pl.DataFrame({"recording": recordings, "end": ends})
    room = MAX_KEY_LENGTH - pl.col("end").str.len_chars().cast(pl.Int64)
    cut = pl.col("recording").str.tail(room) + pl.col("end")
    return keys.select(cut.alias("key")).to_series()


def _slugs(texts: pl.Series) -> pl.Series:
    """The last 60 characters of each text, with `_` in place of all others than letters and digits."""
    return texts.str.replace_all(r"[^A-Za-z0-9]+", "_").str.slice(-_SLUG_LENGTH).str.strip_chars("_")


def _digests(texts: pl.Series) -> pl.Series:
    """Digits of the SHA-256 of each text, by slices: a million paths are never a million Python strings at once."""
    digests = [pl.Series([], dtype=pl.String)]
    for start in range(0, len(texts), _SLICE_ROWS):
        piece = texts.slice(start, _SLICE_ROWS)
        digests.append(pl.Series([hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH] for text in piece]))
    return pl.concat(digests)
