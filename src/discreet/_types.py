"""Shape annotations: real under the test suite's checker, free of charge elsewhere.

jaxtyping costs a third of a second to import, so a user's process never loads it. Annotations are
strings (``from __future__ import annotations``), and only the checker evaluates them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "Num"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Num
else:

    class _Unchecked:
        def __class_getitem__(cls, item: Any) -> Any:
            return item[0] if isinstance(item, tuple) else item

    Bool = Float = Int = Num = _Unchecked
