"""What a user should hear of while looking elsewhere: runs that ended, and a machine in need."""

from collections.abc import Iterable

from zoo.gym.humanize import human_bytes
from zoo.gym.jobs import Run, RunRow, displayed_state, read_status
from zoo.gym.jobs.state import LIVE
from zoo.gym.paths import folders
from zoo.gym.terminal import visible
from zoo.gym.tui.machine import LOW_BATTERY, Machine

LEAST_DISK = 2_000_000_000
LEAST_MEMORY_SHARE = 0.05
READ_EVERY_S = 5.0
MACHINE_EVERY_S = 30.0


class Alerts:
    """Remembers which runs were live, and which warnings were given."""

    def __init__(self) -> None:
        self._live: set[str] = set()
        self._given: set[str] = set()

    def look(self, rows: Iterable[RunRow]) -> None:
        """Takes the runs of a list: those that are live are followed."""
        self._live |= {row.id for row in rows if row.state in LIVE}

    @property
    def active(self) -> int:
        """How many runs are followed, as none of them has ended."""
        return len(self._live)

    def ended(self) -> list[str]:
        """Returns a sentence for each followed run that has ended since."""
        sentences: list[str] = []
        for run_id in sorted(self._live):
            run = Run(folders().runs / run_id)
            status = read_status(run)
            if status.state in LIVE:
                continue
            self._live.discard(run_id)
            state = displayed_state(run, status.state, status.request)
            why = f": {status.message}" if status.state == "failed" and status.message else ""
            sentences.append(visible(f"{run_id}: {state} at step {status.step}{why}"))
        return sentences

    def needs(self, machine: Machine) -> list[str]:
        """Returns what the machine needs; each once, until it has been well again."""
        needs = needs_of(machine)
        new = [text for key, text in needs.items() if key not in self._given]
        self._given = set(needs)
        return new


def needs_of(machine: Machine) -> dict[str, str]:
    """Returns a sentence for each thing that the machine runs out of."""
    needs: dict[str, str] = {}
    if machine.disk_free < LEAST_DISK:
        free = human_bytes(machine.disk_free)
        needs["disk"] = f"{free} of disk space are left: zoo-gym runs clean frees some"
    if machine.memory_free < LEAST_MEMORY_SHARE * machine.memory:
        free = human_bytes(machine.memory_free)
        needs["memory"] = f"{free} of memory are left: close other programs, or a run may fail"
    if machine.charge is not None and not machine.plugged and machine.charge < LOW_BATTERY:
        left = f"{machine.charge:.0f} %"
        needs["battery"] = f"the battery is at {left}: P in Runs saves and parks a run"
    return needs


def escape_of(text: str) -> str:
    """Returns what makes a terminal show a notification: OSC 9 and, for others, OSC 777."""
    plain = text.replace(";", ",")
    return f"\x1b]9;{plain}\x07\x1b]777;notify;zoo-gym;{plain}\x07"
