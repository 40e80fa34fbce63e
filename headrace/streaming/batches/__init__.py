"""From rows to arrays: finding, reading and decoding the samples of a batch, by threads or worker processes."""
