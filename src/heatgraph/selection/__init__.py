"""Parameters chosen from the data alone."""
