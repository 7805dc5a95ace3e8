"""Prove, pair by pair, whether GPU work overlapped, and whether it paid.

import overlapaudit as oa

trace = oa.open_trace("trace.sqlite")
result = oa.audit(trace)
result.devices, result.overlap      # polars frames; .to_pandas() for pandas
trace.operations                    # every kernel, copy, memset and graph replay
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from overlapaudit.version import __version__

if TYPE_CHECKING:
    from overlapaudit.audit import Audit, audit, find_traces, open_trace
    from overlapaudit.model.errors import InputError, OverlapAuditError, UsageError
    from overlapaudit.model.trace import Trace
    from overlapaudit.rules.policy import Policy, load_policy

__all__ = [
    "Audit",
    "InputError",
    "OverlapAuditError",
    "Policy",
    "Trace",
    "UsageError",
    "__version__",
    "audit",
    "find_traces",
    "load_policy",
    "open_trace",
]

# Loaded when first used: `import overlapaudit` costs nothing, and the command line starts fast.
_HOME_OF = {
    "Audit": "overlapaudit.audit",
    "audit": "overlapaudit.audit",
    "find_traces": "overlapaudit.audit",
    "open_trace": "overlapaudit.audit",
    "InputError": "overlapaudit.model.errors",
    "OverlapAuditError": "overlapaudit.model.errors",
    "UsageError": "overlapaudit.model.errors",
    "Trace": "overlapaudit.model.trace",
    "Policy": "overlapaudit.rules.policy",
    "load_policy": "overlapaudit.rules.policy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'overlapaudit' has no attribute {name!r}")
    home = import_module(_HOME_OF[name])
    for other, module in _HOME_OF.items():
        # All names of the module at once: importing overlapaudit.audit has just put the module
        # where the function `audit` belongs.
        if module == home.__name__:
            globals()[other] = getattr(home, other)
    return globals()[name]
