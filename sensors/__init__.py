"""Sensors, schedules and alerts that keep data sets up to date.

Every tick compares the output with what the YAML and the source ask for, by the same pure functions as `build.py`, and
requests the runs that are missing. It does not react to events, so no event can be lost. Cursors only save work. The
runs do all building.
"""
