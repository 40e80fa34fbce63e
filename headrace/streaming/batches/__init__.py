"""Makes batches: finds, reads and decodes samples, on threads or in worker processes."""

__all__ = [
    "arena",
    "assembler",
    "batch",
    "json_texts",
    "pinning",
    "processing",
    "stacking",
    "threaded_batches",
    "worker_batches",
]
