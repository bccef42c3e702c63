"""Antiphon serves open models to coding agents the way the agents' own vendors do."""

__version__ = "0.1.0"
