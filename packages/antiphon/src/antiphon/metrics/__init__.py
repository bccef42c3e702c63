"""What the server counts, and how it tells."""
