"""The error rates of verdicts: a pool of pairs under every condition, and the rates that follow from it."""
