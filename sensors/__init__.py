"""What starts runs by itself: source changes, stale partitions, schedules, alerts."""
