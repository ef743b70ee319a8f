"""The heat kernel: apply it, differentiate it."""
