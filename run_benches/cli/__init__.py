"""The command line: what can be typed, and one module for each command that is more than a call."""
