"""Engines: token ids in, token ids out."""
