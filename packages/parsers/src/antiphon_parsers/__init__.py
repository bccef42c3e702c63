"""Streaming tool-call and reasoning parsers and writers, one file a model family."""

from antiphon_parsers.declared.weigh import weigh
from antiphon_parsers.detection import Candidate, Detection, adapt, detect
from antiphon_parsers.families.hf import Declared, declare
from antiphon_parsers.forcing import CallFormat, Forced, force_argument, force_calls, force_output
from antiphon_parsers.grammar import Grammar, ReasoningMarkers
from antiphon_parsers.parser import Parser, opening_of
from antiphon_parsers.registry import ModelFormat, compose, is_declared, resolve

__all__ = [
    "CallFormat",
    "Candidate",
    "Declared",
    "Detection",
    "Forced",
    "Grammar",
    "ModelFormat",
    "Parser",
    "ReasoningMarkers",
    "adapt",
    "compose",
    "declare",
    "detect",
    "force_argument",
    "force_calls",
    "force_output",
    "is_declared",
    "opening_of",
    "resolve",
    "weigh",
]
