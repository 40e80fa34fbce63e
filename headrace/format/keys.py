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
    slugs = (
        paths.str.replace(r"\.[^./]*$", "")
        .str.replace_all(r"[^A-Za-z0-9]+", "_")
        .str.slice(-_SLUG_LENGTH)
        .str.strip_chars("_")
        .replace("", "recording")
    )
    return (slugs + "-" + _path_digests(paths)).alias("key")


def _path_digests(paths: pl.Series) -> pl.Series:
    """Digits of the SHA-256 of each path, by slices: a million paths are never a million Python strings at once."""
    digests = [pl.Series([], dtype=pl.String)]
    for start in range(0, len(paths), _SLICE_ROWS):
        piece = paths.slice(start, _SLICE_ROWS)
        digests.append(pl.Series([hashlib.sha256(path.encode()).hexdigest()[:_DIGEST_LENGTH] for path in piece]))
    return pl.concat(digests)
