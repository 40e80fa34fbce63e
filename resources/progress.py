"""Where assets say how far they are. In the daemon nobody listens; `build.py` draws a bar."""


class Progress:
    """Says nothing. A plain object and not a `ConfigurableResource`: Dagster copies those, and a bar must stay one."""

    def scanned(self, done: int, total: int) -> None:
        """So many of the new or changed files have been read."""

    def settling(self, num_files: int, seconds: float) -> None:
        """So many files have just changed, and so many seconds are given to them."""

    def built(self, num_samples: int) -> None:
        """So many more samples are done."""
