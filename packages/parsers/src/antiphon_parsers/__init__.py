"""Streaming tool-call and reasoning parsers and writers, one file a model family."""

from antiphon_parsers.detection import Detection, adapt, detect
from antiphon_parsers.forcing import CallFormat, Forced, force_argument, force_calls, force_output
from antiphon_parsers.grammar import Grammar, ReasoningMarkers
from antiphon_parsers.parser import Parser, opening_of
from antiphon_parsers.registry import ModelFormat, compose, resolve

__all__ = [
    "CallFormat",
    "Detection",
    "Forced",
    "Grammar",
    "ModelFormat",
    "Parser",
    "ReasoningMarkers",
    "adapt",
    "compose",
    "detect",
    "force_argument",
    "force_calls",
    "force_output",
    "opening_of",
    "resolve",
]
