"""Attack on files: kills at any moment, altered models and altered data sets, with the outcomes counted."""
