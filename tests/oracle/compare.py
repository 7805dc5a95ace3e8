"""The product's JSON document in the form of the expected figures."""

from __future__ import annotations

from typing import Any


def audit_figures(audit_document: dict[str, Any]) -> dict[str, Any]:
    """Give the figures of an audit of one trace, to be compared with == to the naive ones.

    Only zeros are left out. What the audit could not tell (null) stays, and so equals nothing.
    """
    (trace,) = audit_document["inputs"]
    coverage = audit_document["coverage"]
    devices = [_device(device) for device in audit_document["devices"]]
    return {
        "file": trace["file"],
        "operations": coverage["operations"],
        "operations_with_launch": coverage["operations_with_launch"],
        "devices": sorted(devices, key=lambda device: (device["process"], device["device"])),
    }


def _device(device: dict[str, Any]) -> dict[str, Any]:
    plain = ("process", "device", "window_ns", "busy_ns", "idle_ns")
    return {
        **{key: device[key] for key in plain},
        "lanes": _not_zero(device["lanes"]),
        "copies": _not_zero(device["copies"]),
        "overlap": _not_zero(_overlap(device["overlap"])),
    }


def _overlap(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    named = {"&".join(sorted((pair["a"], pair["b"]))): pair["overlap_ns"] for pair in pairs}
    if len(named) != len(pairs):
        raise ValueError("a pair is listed twice")
    return named


def _not_zero(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value != 0}
