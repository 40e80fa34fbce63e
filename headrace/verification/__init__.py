"""Checks shards: what every build checks, `headrace verify`, and the alignment of columns with latent frames."""
