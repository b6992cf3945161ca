"""The attacks by name."""

from bench.attacks import copies, inside, scaled, trained
from bench.attacks.view import Attack

ATTACKS: dict[str, Attack] = {
    "none": scaled.none,
    "sign flip": scaled.scaled(-1),
    "sign flip x10": scaled.scaled(-10),
    "noise x10": scaled.noise,
    "ALIE": inside.alie(),
    "ALIE 1.5": inside.alie(1.5),
    "IPM 0.5": inside.ipm(0.5),
    "IPM 2": inside.ipm(2),
    "Fang": inside.fang,
    "min-max": inside.min_max,
    "label flip": trained.label_flip,
    "tiny": scaled.scaled(1e-3),
    "copycat": copies.copycat,
    "backdoor": trained.backdoor(1),
    "backdoor x5": trained.backdoor(5),
}
"""The columns of the attack table: nobody attacks, and fourteen attacks."""

MORE_ATTACKS: dict[str, Attack] = {
    "Sybil split": copies.sybil_split,
    "mimic": copies.mimic,
}
"""Attacks by many keys, which a round answers by its cap on new ones and by merging copies."""

ADAPTIVE = {"adaptive": False, "adaptive gated": True}
"""Names of the attacker who knows everything, and whether a gate binds it."""
