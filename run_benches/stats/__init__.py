"""Statistics as pure functions of numbers: estimates with intervals, verdicts, and what the usual tools would have
said."""
