"""The parser engine: states over one cursor. It knows no family; families hand it grammar data."""
