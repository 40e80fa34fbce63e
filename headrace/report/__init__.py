"""Renders the HTML report about a data set."""
