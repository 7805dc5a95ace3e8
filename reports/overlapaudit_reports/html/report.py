"""What the sections of a page are made from."""

from __future__ import annotations

from dataclasses import dataclass

from overlapaudit.model.document import AuditDocument, Device
from overlapaudit_reports.html.timeline import Timeline
from overlapaudit_reports.wording import process_id


@dataclass(frozen=True, slots=True)
class Report:
    """An audit, and its timeline where any device has time."""

    document: AuditDocument
    timeline: Timeline | None

    def why_absent(self, what: str) -> str:
        """Give the reason why a part of the document is null."""
        reasons = [gap.why for gap in self.document.coverage.not_recorded if gap.what == what]
        return "; ".join(reasons) or "this version does not compute it"


def place(device: Device) -> str:
    """Name a device."""
    return f"rank {device.rank} · device {device.device} · pid {process_id(device.process)}"
