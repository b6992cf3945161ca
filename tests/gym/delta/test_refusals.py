"""What a delta's file says of refusals."""

from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.delta import as_text, check_delta, load_delta
from zoo.gym.delta.check import Check, judge_refusals
from zoo.gym.delta.file.refusals import REFUSALS_KEY, Refusals
from zoo.gym.delta.file.writer import replace_header
from zoo.gym.refusals import PromptCounts, Unmeasured, prompts_digest

ASKED = {"harmful": 60, "harmless": 60}


def record(**changes: Any) -> dict[str, Any]:
    """A record as a file has it."""
    counts = {"base": (58, 3), "tuned": (57, 3), "delta": (55, 2)}
    refused = {name: dict(zip(ASKED, pair, strict=True)) for name, pair in counts.items()}
    return {"prompts": prompts_digest(), "asked": ASKED, **refused, **changes}


def with_record(file: Path, out: Path, content: Any) -> Path:
    """A copy of a delta whose recipe has a record."""
    out.write_bytes(file.read_bytes())
    delta = load_delta(out)
    recipe = delta.header.recipe | {REFUSALS_KEY: content}
    replace_header(delta, delta.header.model_copy(update={"recipe": recipe}))
    return out


def test_a_record_is_read_and_shown(dense: Path, tmp_path: Path) -> None:
    delta = load_delta(with_record(dense, tmp_path / "d", record()))
    assert delta.header.refusals == Refusals.model_validate(record())
    text = as_text(delta)
    assert (
        "refusals  of 60 harmful prompts refused: base 58 (97%, 89 to 99%), "
        "tuned 57 (95%, 86 to 98%), delta 55 (92%, 82 to 96%)\n"
        "refusals  of 60 harmless prompts refused: base 3 (5%, 2 to 14%), " in text
    )
    assert "recipe    0 settings" in text


def test_a_file_without_a_record_has_none(dense: Path) -> None:
    assert load_delta(dense).header.refusals is None
    assert "refusals" not in as_text(load_delta(dense))


def test_shares_and_intervals_are_for_programs(dense: Path) -> None:
    content = Refusals.model_validate(record(tuned=None)).as_json()
    assert content.keys() == {"prompts", "base", "delta"}
    assert content["delta"]["harmful"]["share"] == pytest.approx(55 / 60)
    assert content["delta"]["harmful"]["interval"] == pytest.approx((0.8193, 0.9639), abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": {"harmful": 61, "harmless": 0}},
        {"tuned": {"harmful": 0, "harmless": 61}},
        {"asked": {"harmful": 0, "harmless": 60}, "tuned": None},
        {"base": {"harmful": -1, "harmless": 0}},
        {"base": {"harmful": 1}},
        {"base": None},
        {"prompts": "x"},
        {"more": 1},
    ],
)
def test_an_impossible_record_is_refused(
    dense: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    with raises("delta.bad_header", "header"):
        with_record(dense, tmp_path / "d", record(**changes))


def measured(**counts: tuple[int, int]) -> Refusals:
    refused = {name: dict(zip(ASKED, pair, strict=True)) for name, pair in counts.items()}
    return Refusals.model_validate(record(tuned=None) | refused)


def test_counts_that_differ_by_more_than_rounding_fail_the_check() -> None:
    stored = Refusals.model_validate(record())
    assert judge_refusals(stored, measured(base=(58, 3), delta=(53, 4))).ok
    assert judge_refusals(stored, measured(base=(58, 3), delta=(52, 2))).ok is False
    assert judge_refusals(stored, measured(base=(58, 3), delta=(55, 5))).ok is False
    assert judge_refusals(stored, measured(base=(55, 3), delta=(55, 2))).ok is False
    assert judge_refusals(stored, Unmeasured.REFUSES_NOTHING).ok is False


def test_refusals_are_checked_on_the_same_prompts_alone(
    base: Path, dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(content: Any) -> Check:
        return check_delta(with_record(dense, tmp_path / "d", content), base=base)[-1]

    monkeypatch.setattr(
        "zoo.gym.delta.check.measure_refusals",
        lambda *_: Refusals.model_validate(record(tuned=None)),
    )
    assert (last(record()).name, last(record()).ok) == ("refusals", True)
    other = last(record(prompts="0" * 64))
    assert (other.ok, other.detail) == (None, "the file's measurement is on other prompts")
    assert check_delta(tmp_path / "d")[-1] == Check("refusals", None, "no base was given")
    assert check_delta(dense, base=base)[-1].name == "quality"


def test_counts_are_whole_numbers() -> None:
    with pytest.raises(ValueError, match="harmless"):
        PromptCounts.model_validate({"harmful": 1, "harmless": 1.5})
