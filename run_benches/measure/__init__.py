"""Running benches: building and linking them, the broker and its families, plans, runs."""
