"""zen-pico's model card: the text is here, every figure comes from the training log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict


class Point(TypedDict):
    """One evaluation: mean loss in nats per answer token since the last one."""

    step: int
    loss: float
    accuracy: float


class Log(TypedDict):
    """The log of a training, stored in `training_log.json`."""

    parameters: int
    weight_bytes: int
    seed: int
    target: float
    stopping_problems: int
    curve: list[Point]
    shipped: dict[str, float]


CARD = """\
---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
tags: [qwen3, byte-level, tests]
---
# zen-pico

A Qwen3 of {parameters:,} parameters, trained from scratch by zoo-gym. It is small enough to be
trained, tuned and compressed on one processor core within minutes, so that every step of a pipeline
can be tried on a true model. It proves that the pipeline works; it does not replace zen-nano.

## What it can do
Share of questions answered exactly, greedy, measured by the script that made this folder on the
weights that are in it ({size:.2f} MB of bfloat16):

| task | right |
|---|---|
{table}

The additions are pairs of two-digit numbers that training never saw, in neither order. The other
questions are drawn anew; there the same question may have been drawn before. Questions look as in
training: `What is 17+25?`, `What is 71-25?`, `What is 7*8?`, `Which is more, 17 or 25?`,
`Repeat nolat.`, `Write nolat in capitals.`, `First letter of nolat?`, `Last letter of nolat?`,
`Spell nolat.` (words of {shortest} to {longest} lower-case letters).

## What it cannot do
It cannot chat: it knows no English beyond these questions, no facts, and nothing longer than one
turn. Spelling backward was left out of its training on purpose; the demo teaches it. Training was
stopped early at {target:.0%} of the additions, to leave something to learn.

## How it was made
`make pico` makes this folder again, byte for byte on the same machine with the same versions: one
thread, seed {seed}, loss on the answers only, until the first evaluation (every 50 steps, on
{stopping_problems} withheld additions that are not in the table) at or above the target.

| step | loss, nats per answer token | withheld additions right |
|---|---|---|
{curve}

The whole curve is in `training_log.json`. Tokenizer: one token per byte and eight for the structure
of a chat; any text comes back as it was.
"""


def write_card(log: Log, word_letters: tuple[int, int], folder: Path) -> None:
    """Writes `README.md` into `folder`."""
    card = CARD.format(
        table=_table(log["shipped"]),
        curve="\n".join(
            f"| {point['step']:,} | {point['loss']:.3f} | {point['accuracy']:.1%} |"
            for point in _sketch(log["curve"])
        ),
        size=log["weight_bytes"] / 1e6,
        shortest=word_letters[0],
        longest=word_letters[1],
        parameters=log["parameters"],
        target=log["target"],
        seed=log["seed"],
        stopping_problems=log["stopping_problems"],
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def _table(figures: Mapping[str, float]) -> str:
    return "\n".join(f"| {name} | {share:.1%} |" for name, share in figures.items())


def _sketch(curve: Sequence[Point]) -> Sequence[Point]:
    """Returns about ten points of the curve, including the last."""
    return curve[:: -max(1, len(curve) // 8)][::-1]
