"""The terms of a round in words: how it combines what, what is measured, who is capped."""

from typing import TYPE_CHECKING

from zoo.gym.humanize import counted, human_bytes

if TYPE_CHECKING:
    from zoo.gym.rounds.protocol.manifest import Manifest


def rule_in_words(manifest: "Manifest") -> str:
    """Returns how a round combines what."""
    if manifest.lessons is None:
        claims = manifest.method == "federated_average"
        said = " by the examples that contributors say they have" if claims else ""
        tensors = counted(len(manifest.tensors), "tensor")
        return f"{manifest.method}{said}, form {manifest.form}, {tensors}"
    clear = ", with a clear gain" if manifest.lessons.clear else ""
    gates = len(manifest.keys_of("gate"))
    keys = f"{counted(gates, 'key')} that {'measures' if gates == 1 else 'measure'}"
    return f"lessons, kept at {manifest.lessons.least} of {keys}{clear}"


def guards_in_words(manifest: "Manifest") -> str | None:
    """Returns what is measured and who is capped; None where a round can have neither."""
    if manifest.lessons or manifest.privacy:
        return None
    return f"{_gate(manifest)}; {_cap(manifest)}"


def withstands_none(manifest: "Manifest") -> str | None:
    """Returns that a robust rule withstands nobody with as few contributors as a round needs."""
    from zoo.gym.rounds.rules.method import takes_f

    if manifest.lessons or manifest.privacy or manifest.f is not None:
        return None
    count = manifest.quorum
    rule = manifest.rule(count)
    if rule.f or not (takes_f(rule.method) or rule.mixes):
        return None
    needed = next(more for more in range(count, count + 100) if manifest.rule(more).f)
    return (
        f"with {count} contributors, the fewest of this round, {rule.method.value} withstands no "
        f"malicious one; with {needed} it withstands one"
    )


def _gate(manifest: "Manifest") -> str:
    if not (gates := len(manifest.keys_of("gate"))):
        return "no gate"
    terms, parts = manifest.evaluation, list[str]()
    if terms is not None:
        parts.append(f"held-out rows ({human_bytes(terms.bytes)})")
        named = {"refusals": terms.refusals, "triggers": terms.triggers}
        parts += [name for name, digest in named.items() if digest]
        parts += [f"validator {terms.validator}"] if terms.validator else []
    parts += ["the last result"] if manifest.previous else []
    parts += ["a re-fit"] if manifest.refit else []
    return f"gate of {counted(gates, 'key')}: {', '.join(parts)}"


def _cap(manifest: "Manifest") -> str:
    terms = manifest.newcomers
    if terms is None:
        return "no cap on newcomers"
    rounds = counted(terms.rounds, "accepted round")
    return f"{terms.share:.0%} at most for newcomers, with fewer than {rounds}"
