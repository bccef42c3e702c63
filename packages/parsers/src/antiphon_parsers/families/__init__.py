"""Families: one file a model format, values and writers; the engine reads them."""
