"""Exact replay: what was sampled is worth more than any retelling of it."""
