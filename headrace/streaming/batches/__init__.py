"""Makes batches: finds, reads and decodes samples, on threads or in worker processes."""

__all__ = ["arena", "assembler", "batch", "decode", "pinning", "processing", "threaded_batches", "worker_batches"]
