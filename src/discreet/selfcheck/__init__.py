"""Does the whole chain, files and attacks included, find no leak where there is none, and one that was planted?"""

from __future__ import annotations
