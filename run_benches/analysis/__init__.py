"""The findings in stored figures, as values: rows and their contrasts, floors, the ladder, laws of growth,
contradictions."""
