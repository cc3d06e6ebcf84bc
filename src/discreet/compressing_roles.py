"""How the samples of a compress spec are dealt out to their parts."""

from __future__ import annotations

import numpy as np

from discreet._words import whole
from discreet.copies import together
from discreet.roles import Roles, Sizes, deal
from discreet.spec import CompressSpec, Loaded, Source, SpecFileError
from discreet.spec import sections as spec_sections

__all__ = ["dealt", "sizes_of"]


def sizes_of(roles: spec_sections.Roles, samples: int, unit: int = 1) -> Sizes:
    """How many samples play each part; shares of all samples where the spec gives no number.

    Args:
        roles: Numbers that the spec gives.
        samples: How many there are.
        unit: What comes in so many at a time, as all groups are of multiples of it.

    Raises:
        ValueError: Too few samples, or sizes that do not fit.

    Example:
        >>> sizes_of(spec_sections.Roles(), 1000)
        Sizes(fit=400, loop=100, audit=250, validation=100, test=150, reference=0)
    """
    shares = {"fit": 0.4, "loop": 0.1, "audit": 0.25, "validation": 0.1, "test": 0.15}
    left = samples - roles.reference
    found = {name: getattr(roles, name) or int(share * left + 1e-9) for name, share in shares.items()}
    for name in shares:
        if not getattr(roles, name):
            found[name] -= found[name] % (2 * unit if name in ("loop", "audit") else unit)
    return Sizes(**found, reference=roles.reference)


def dealt(spec: CompressSpec, source: Source, data: Loaded) -> tuple[Sizes, Roles, tuple[str, ...]]:
    """Sizes of the parts, who plays them, and what a reader must know of that.

    Copies play one part together: none is judged as a non-member of a model that was trained on another one. Whole
    groups need not fill parts that leave nothing over.

    Raises:
        SpecFileError: Too few samples, or groups that do not fit.
    """
    own, samples, unit, slack = spec.compress, len(data.y), 1, [1.0]
    group, copies = together(data.x, data.group)
    if group is not None:
        unit, slack = int(np.gcd.reduce(np.unique(group, return_counts=True)[1])), [1.0, 0.98, 0.95, 0.9]
    while True:
        share = slack.pop(0)
        try:
            sizes = sizes_of(spec.roles, int(share * samples), unit)
            roles = deal(samples, own.runs, sizes, seed=own.seed, group=group)
            return sizes, roles, _told(copies, samples)
        except ValueError as error:
            if not slack:
                why = f" ({whole(copies)} samples are copies, which make one group each)" if copies else ""
                raise SpecFileError(f"{source.at('roles')}: {error}{why}") from error


def _told(copies: int, samples: int) -> tuple[str, ...]:
    if not copies:
        return ()
    return (
        f"{whole(copies)} of {whole(samples)} samples have the same inputs as another one. In each run such copies"
        " play one part together, so that none is judged as a non-member of a model that was trained on its copy.",
    )
