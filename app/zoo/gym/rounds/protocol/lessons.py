"""The terms of a round of lessons, and what its manifest may not have besides."""

from typing import TYPE_CHECKING

from pydantic import Field

from zoo.gym.experience.library.file import MOST_BYTES
from zoo.gym.experience.library.library import MOST_ITEMS
from zoo.gym.experience.sharing.limits import MOST_OF_ONE
from zoo.gym.rounds.protocol.objects import Terms

if TYPE_CHECKING:
    from zoo.gym.rounds.protocol.manifest import Manifest

EVIDENCE = "evidence"
"""The rule of a round of lessons: what enough keys measured and found good is kept."""

NO_BASE = "0" * 64
"""The identity of no weights."""

MOST_CANDIDATES = 1600
"""The most lessons of all contributors: each is measured by itself, by each key of role gate."""

_ONLY_DELTAS = ("f", "evaluation", "refit", "newcomers", "previous", "privacy")


class Lessons(Terms):
    """Which lessons of a round are kept."""

    least: int = Field(ge=1, le=100, description="keys of role gate that must have measured one")
    clear: bool = Field(
        default=False, description="whether all effects together must be above 0 at 5 %"
    )
    most: int = Field(default=MOST_OF_ONE, ge=1, le=MOST_ITEMS, description="of one contributor")
    items: int = Field(default=MOST_ITEMS, ge=1, le=MOST_ITEMS, description="of the result")


def terms_of(manifest: "Manifest") -> Lessons:
    """Returns the terms of a round of lessons."""
    assert manifest.lessons, "only rounds of lessons come here"
    return manifest.lessons


def check_lessons_round(manifest: "Manifest") -> None:
    """Refuses a round of lessons with terms that contradict each other or have no effect.

    Raises:
        ValueError: the term is named.
    """
    lessons = manifest.lessons
    if lessons is None:
        raise ValueError("lessons: expected their terms in a round of kind experience, got null")
    fixed: dict[str, tuple[object, object]] = {
        "form": ("lessons", manifest.form),
        "method": (EVIDENCE, manifest.method),
        "tensors": ([], [tensor.name for tensor in manifest.tensors[:3]]),
        "base.identity": (NO_BASE, manifest.base.identity),
        "base.revision": ("", manifest.base.revision),
        "caps.rank": (1, manifest.caps.rank),
        "caps.value": (1.0, manifest.caps.value),
        **{name: (None, getattr(manifest, name)) for name in _ONLY_DELTAS},
    }
    for name, (expected, got) in fixed.items():
        if got != expected:
            raise ValueError(
                f"{name}: expected {_shown(expected)} in a round of kind experience, which changes "
                f"no weights, got {_shown(got)}"
            )
    if manifest.caps.file_bytes > MOST_BYTES:
        raise ValueError(f"caps.file_bytes: expected at most {MOST_BYTES}, as a library has")
    gates = len(manifest.keys_of("gate"))
    if gates < lessons.least:
        raise ValueError(
            f"keys: expected at least {lessons.least} of role gate, which measure, got {gates}"
        )
    if manifest.most * lessons.most > MOST_CANDIDATES:
        raise ValueError(
            f"most: expected at most {MOST_CANDIDATES // lessons.most} contributors of "
            f"{lessons.most} lessons each, which are all measured, got {manifest.most}"
        )


def _shown(value: object) -> str:
    return "null" if value is None else f"{value!r:.80}"
