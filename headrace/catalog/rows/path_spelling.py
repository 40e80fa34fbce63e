"""Spells the paths of a user's table as the source spells them. Pure."""

import posixpath

import polars as pl

_UNTIDY_PATH = r"(^|/)\.{0,2}(/|$)"
_NOT_ASCII = r"[^\x00-\x7F]"
_COMPOSED, _FILE = "\0composed", "\0file"


def tidy_paths(paths: pl.Series, root: str = "") -> pl.Series:
    """The paths without the `root` of the source before them, and without `./`, `//` and the like."""
    if top := root.rstrip("/"):
        paths = paths.str.strip_prefix(f"{top}/")
    untidy = paths.str.contains(_UNTIDY_PATH).fill_null(value=False)
    if not untidy.any():
        return paths
    pairs = zip(paths, untidy, strict=True)
    tidy = [posixpath.normpath(path) if path and is_untidy else path for path, is_untidy in pairs]
    return pl.Series(paths.name, tidy, dtype=pl.String)


def spelled_as_files(paths: pl.Series, files: pl.Series) -> pl.Series:
    """The paths, each spelled as its file: an accented letter may be one character or two.

    macOS, and archives made there, decompose such letters (Unicode NFD); most editors compose them (NFC). A path is
    replaced by the name of the only file that differs from it in nothing else.
    """
    if not paths.str.contains(_NOT_ASCII).any():
        return paths
    composed = pl.col(_FILE).str.normalize("NFC").alias(_COMPOSED)
    known = files.alias(_FILE).to_frame().select(composed, _FILE).filter(pl.col(_COMPOSED).is_unique())
    given = pl.DataFrame({"path": paths, _COMPOSED: paths.str.normalize("NFC")})
    found = given.join(known, on=_COMPOSED, how="left", maintain_order="left")
    return found.select(pl.coalesce(_FILE, "path").alias(paths.name)).to_series()
