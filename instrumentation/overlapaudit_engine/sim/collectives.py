"""Collectives: each rank's kernel spins until the last one has come, then all transfer together."""

from __future__ import annotations

from dataclasses import dataclass, field

from overlapaudit_engine.hardware.hardware import Hardware
from overlapaudit_engine.sim.laws import Load, Resource
from overlapaudit_engine.sim.running import Running, Runs
from overlapaudit_engine.sim.sms import Placed, Sms
from overlapaudit_engine.sim.task import Cause, Release, Task
from overlapaudit_engine.work import CollectiveWork


@dataclass(slots=True)
class _Member:
    task: Task
    work: CollectiveWork
    factor: float
    sms: Sms
    placed: Placed | None = None


@dataclass(slots=True)
class _Meeting:
    members: list[_Member] = field(default_factory=list)
    resident: int = 0


@dataclass(slots=True)
class Collectives:
    """All communicators of a run.

    Attributes:
        sizes: ranks of each communicator, by its name.
        met: for each that transferred, its tasks in the order in which they became ready.
    """

    hardware: Hardware
    runs: Runs
    sizes: dict[str, int] = field(default_factory=dict)
    met: list[tuple[str, list[Task]]] = field(default_factory=list)
    _open: dict[str, list[_Meeting]] = field(default_factory=dict)

    def add(self, task: Task, work: CollectiveWork, factor: float, sms: Sms) -> None:
        """Take a rank's kernel that is ready; the n-th of each rank meet.

        Raises:
            ValueError: nobody has said how many ranks its communicator has.
        """
        group = task.group
        if group is None or group not in self.sizes:
            raise ValueError(f"{work.name}: no communicator {group!r}")
        meetings = self._open.setdefault(group, [])
        for meeting in meetings:
            if all(one.sms is not sms for one in meeting.members):
                break
        else:
            meeting = _Meeting()
            meetings.append(meeting)
        member = _Member(task, work, factor, sms)
        meeting.members.append(member)
        member.placed = sms.add(task, work, 1.0, lambda: self._came(group, meeting, task))

    def waiting(self) -> list[tuple[str, list[Task]]]:
        """Give the collectives that some ranks wait in and others never entered."""
        return [
            (group, [one.task for one in meeting.members])
            for group, meetings in self._open.items()
            for meeting in meetings
        ]

    def _came(self, group: str, meeting: _Meeting, last: Task) -> None:
        meeting.resident += 1
        if meeting.resident < self.sizes[group]:
            return
        self._open[group].remove(meeting)
        timeline = self.runs.timeline
        for member in meeting.members:
            member.task.peers_by = Cause(Release.PEERS, last, at_ns=timeline.now_ns)
        base_ns = max(int(member.work.base_ns * member.factor) for member in meeting.members)
        timeline.at(timeline.now_ns + base_ns, lambda: self._transfer(group, meeting))

    def _transfer(self, group: str, meeting: _Meeting) -> None:
        """Move what each sends, all at the pace of the slowest."""
        lasts_ns = max(
            member.work.sent_bytes * member.factor / self._rate(member.work)
            for member in meeting.members
        )
        if lasts_ns <= 0:
            self._end(group, meeting)
            return
        uses: dict[Resource, float] = {}
        read = written = 0
        for member in meeting.members:
            work, device = member.work, member.sms.device
            out, into = ("nic_out", "nic_in") if work.network else ("link_out", "link_in")
            for kind, size in (
                (out, work.sent_bytes),
                (into, work.sent_bytes),
                ("hbm", work.read_bytes + work.write_bytes),
            ):
                if size:
                    uses[Resource(kind, device)] = size * member.factor / lasts_ns
            read += work.read_bytes
            written += work.write_bytes

        def reached(running: Running) -> None:
            self.runs.end(running)
            self._end(group, meeting)

        reads = read / (read + written) if read + written else 0.5
        self.runs.begin(Load(uses, reads=reads), lasts_ns, reached)

    def _rate(self, work: CollectiveWork) -> float:
        hardware = self.hardware
        return (
            hardware.nic_rate if work.network else hardware.link_rate
        ) * hardware.collective_share

    def _end(self, group: str, meeting: _Meeting) -> None:
        self.met.append((group, [member.task for member in meeting.members]))
        for member in meeting.members:
            assert member.placed is not None
            member.sms.take_away(member.placed)
