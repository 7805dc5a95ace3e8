"""Shortcuts from hand-made content to what the audit says about it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import overlapaudit as oa
from tests.tracebuilder import make_trace


def audit_of(
    *, window: str = "trace", policy: oa.Policy | None = None, **content: Any
) -> dict[str, Any]:
    """Write a trace with this content (and arguments of make_trace), and audit it."""
    with TemporaryDirectory() as folder:
        path = make_trace(Path(folder) / "trace.sqlite", **content)
        return audit_file(path, window=window, policy=policy)


def audit_file(
    *paths: Path, window: str = "trace", policy: oa.Policy | None = None
) -> dict[str, Any]:
    """Audit files as the ranks of one run."""
    traces = [oa.open_trace(path) for path in paths]
    try:
        return oa.audit(traces, window=window, policy=policy or oa.Policy()).to_dict()
    finally:
        for trace in traces:
            trace.close()


def only_device(document: dict[str, Any]) -> dict[str, Any]:
    """Give the one device of an audit."""
    (device,) = document["devices"]
    return device


def lanes(device: dict[str, Any]) -> dict[str, int]:
    """Give the lanes that have time."""
    return {lane: ns for lane, ns in device["lanes"].items() if ns}


def copies(device: dict[str, Any]) -> dict[str, int]:
    """Give the copy directions that have time."""
    return {way: ns for way, ns in device["copies"].items() if ns}


def overlaps(device: dict[str, Any]) -> dict[str, int]:
    """Give what ran at once, as `a&b`."""
    return {f"{p['a']}&{p['b']}": p["overlap_ns"] for p in device["overlap"] if p["overlap_ns"]}


def pair(device: dict[str, Any], a: str, b: str) -> dict[str, Any]:
    """Give one pair of the overlap list."""
    (found,) = [p for p in device["overlap"] if (p["a"], p["b"]) == (a, b)]
    return found


def codes(document: dict[str, Any]) -> list[str]:
    """Give the codes of the findings, in order."""
    return [finding["code"] for finding in document["findings"]]


def finding(document: dict[str, Any], code: str) -> dict[str, Any]:
    """Give the one finding with this code."""
    (found,) = [one for one in document["findings"] if one["code"] == code]
    return found
