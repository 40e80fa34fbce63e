"""What keeps data sets up to date by itself: sensors, schedules and alerts.

Level-triggered: every tick compares what is there with what should be, by the same pure functions as `build.py`, and
starts what is missing. Cursors only save work; losing one costs a look. Nothing here builds anything itself.
"""
