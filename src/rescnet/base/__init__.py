"""Base of all other rooms: errors, text, intervals, files, progress bars, the version."""
