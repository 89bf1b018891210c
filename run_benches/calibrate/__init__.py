"""How often verdicts are wrong: a pool of pairs under every condition, and the rates of error that follow from it."""
