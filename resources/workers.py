"""How many recordings are worked on at a time. Local threads; a cluster is one more implementation."""

import dagster as dg

from headrace.machine import num_cores


class WorkersResource(dg.ConfigurableResource):
    """Threads of this machine; 0 means one per core that this process may use."""

    num_threads: int = 0

    @property
    def count(self) -> int:
        """Threads to start, at least 1."""
        return self.num_threads or num_cores()
