"""An audit spec carried out: runs trained or read, measured, ranked, attacked, judged; kept unit by unit."""

from __future__ import annotations

from discreet.auditing_spec.carrying_out import Done, audit_spec

__all__ = ["Done", "audit_spec"]
