"""Runs through epochs: plans them, counts positions, and downloads shards ahead."""
