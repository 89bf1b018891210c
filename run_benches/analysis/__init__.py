"""What stored figures say, as values: rows and their contrasts, floors, the ladder, laws of growth, contradictions."""
