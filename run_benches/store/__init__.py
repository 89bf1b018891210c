"""Formats on disk, each with its reader and writer: runs, comparisons, the pool of a calibration."""
