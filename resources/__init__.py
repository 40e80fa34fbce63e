"""Dagster resources of the assets: storage, worker threads or a Ray cluster, encoders, progress reports.

`dagster_internals` holds every use of Dagster's private interfaces.
"""
