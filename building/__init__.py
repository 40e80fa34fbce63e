"""`build.py`'s inside: bringing one data set up to date now, through the same assets that the daemon runs.

`driver` decides what to run by comparing what is wanted with what is there, `runs` carries one run out in this process,
`terminal` shows it. Nothing here builds anything itself.
"""
