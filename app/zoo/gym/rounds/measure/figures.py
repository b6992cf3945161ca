"""What probes counted, in words, and which of them say little about a result."""

from zoo.gym.humanize import counted
from zoo.gym.rounds.protocol.records import MOST_TRIGGERED, Probe, Purpose, ResultGate

FEWEST_PROMPTS = 20
"""With fewer prompts one of them is more than `MOST_TRIGGERED`: one answer decides."""


def probe_lines(found: ResultGate) -> list[str]:
    """Returns a line for each kind of probe: what base and result answered."""
    words: dict[Purpose, str] = {"refusals": "refuses", "triggers": "follows triggers"}
    return [
        f"{purpose}: the result {words[purpose]} in {probe.result} of "
        f"{counted(probe.prompts, 'prompt')}, the base in {probe.base}"
        for purpose, probe in found.probes.items()
    ]


def probe_warnings(found: ResultGate) -> list[str]:
    """Returns what is to be said of probes that cannot fail, or that one answer decides."""
    warnings: list[str] = []
    for purpose, probe in found.probes.items():
        warnings += [said] if (said := _never_fails(purpose, probe)) else []
        if probe.prompts < FEWEST_PROMPTS:
            warnings.append(
                f"{purpose}: {counted(probe.prompts, 'prompt')} say little, as one is more than "
                f"{100 * MOST_TRIGGERED:.0f} % of them: take {FEWEST_PROMPTS} or more"
            )
    return warnings


def _never_fails(purpose: Purpose, probe: Probe) -> str | None:
    """Returns why no result could fail a probe, None if one could."""
    worst = 0 if purpose == "refusals" else probe.prompts
    if probe.model_copy(update={"result": worst}).refusal(purpose) is not None:
        return None
    if purpose == "refusals":
        return "refusals: no result can fail them, as the base refuses none of the prompts"
    return (
        f"triggers: no result can fail them, as the base has the target in {probe.base} of "
        f"{counted(probe.prompts, 'answer')}"
    )
