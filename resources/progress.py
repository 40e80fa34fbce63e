"""Where assets say how far they are. In the daemon nobody listens; `build.py` draws a bar."""


class Progress:
    """Says nothing. A plain object and not a `ConfigurableResource`: Dagster copies those, and a bar must stay one."""

    def scanned(self, done: int, total: int) -> None:
        """So many of the new or changed files have been read."""

    def built(self, num_samples: int) -> None:
        """So many more samples are done."""
