"""What ``model_seeds.stream`` draws for in defences; 0 to 4 are those of training and masks."""

from __future__ import annotations

__all__ = ["NOISE", "OUTSIDERS", "POISSON", "VIEW"]

POISSON, NOISE, OUTSIDERS, VIEW = 16, 17, 18, 19
