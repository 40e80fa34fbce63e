"""The asset graph: one module per asset, one set of assets per data set.

Assets read the configuration, call one library function and return metadata. They exchange paths and digests, never
arrays; anything worth testing without Dagster belongs in `headrace`.
"""
