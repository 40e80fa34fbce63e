"""Headrace: raw audio to training-ready streams.

The library under the asset graph, and what a training job imports. It never imports Dagster, and importing it
imports neither torch nor any reader: public names are added here as lazily loaded attributes only.
"""
