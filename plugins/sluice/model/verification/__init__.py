"""What must hold: offsets, rows, events, files. Pure arithmetic."""
