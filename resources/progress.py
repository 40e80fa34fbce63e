"""Receives progress reports from assets. The daemon ignores them; `build.py` draws a progress bar."""


class BuildProgress:
    """Ignores all progress reports.

    Not a `ConfigurableResource`, because Dagster copies these, and all assets of a run must share one progress bar.
    """

    def scanned(self, done: int, total: int) -> None:
        """`done` of the `total` new or changed files have been read."""

    def resuming(self, num_files: int) -> None:
        """A scan that was interrupted has read `num_files` files, which are not read again."""

    def settling(self, num_files: int, seconds: float) -> None:
        """The scan waits `seconds` because `num_files` files have just changed."""

    def built(self, num_samples: int) -> None:
        """`num_samples` more samples are built."""
