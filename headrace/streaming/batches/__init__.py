"""Makes batches: finds, reads and decodes samples, on threads or in worker processes."""
