"""Requests as they came, with what became of them, kept in files that can be asked again (docs/recording.md)."""
