"""Whole studies, from data to an audit, one function each."""

from __future__ import annotations
