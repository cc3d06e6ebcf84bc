"""Specs: short typed TOML files that say what to do with a model and data of one's own."""

from __future__ import annotations

from discreet.spec._errors import CalledError, SpecFileError
from discreet.spec.audit_sections import AuditSpec
from discreet.spec.calls import Named, named
from discreet.spec.loading import Loaded, load_data, load_model
from discreet.spec.reading import Source, importable, read
from discreet.spec.schema import schema
from discreet.spec.sections import CompressSpec
from discreet.spec.template import template
from discreet.spec.training import Train, recipe_of

__all__ = [
    "AuditSpec",
    "CalledError",
    "CompressSpec",
    "Loaded",
    "Named",
    "Source",
    "SpecFileError",
    "Train",
    "importable",
    "load_data",
    "load_model",
    "named",
    "read",
    "recipe_of",
    "schema",
    "template",
]
