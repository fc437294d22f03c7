"""Real servers and small helpers for every suite. The server modules need only the standard library."""
