"""The implementation of `build.py`: brings one data set up to date now, through the same assets as the daemon.

`command` reads the command line. `driver` compares what is wanted with what exists and decides what to run, and `runs`
executes one run in this process. `terminal` shows progress, `ledger` records the state before the build, and `account`
prints what changed.
"""
