"""The runner behind `run-benches.py`: measures the layers of Strata, judges, stores and documents what it measured.

Read it from the lowest package to the highest (docs/measuring.md has the map): setup, stats, store, analysis, measure,
compare, calibrate, render, cli. The modules that lie here are below all of them. Help and errors of set-up need the
standard library alone, so that a bare machine with Python 3.11 can begin; all else runs inside `.venv`.
"""
