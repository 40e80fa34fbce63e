"""Renders the HTML report about a data set."""

__all__ = ["catalog_figures", "contents", "figures", "page"]
