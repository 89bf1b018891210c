"""The runner behind `run-benches.py`: measures the layers of Strata, judges, stores and documents what it measured.

Why a package: the start stays thin, and every concept has one module. Measuring, tables, `list` and `save` need the standard library
alone, so that a bare machine with Python 3.11 can begin; the few things that need more (pictures, tests) come from `.venv`.
"""
