"""The rules of `zoo-gym recommend`, as one table; docs/reference/recommend.md is made from it.

Each reason says what this program does with such rows. None says how good the result will be.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zoo.gym.config.train import TrainConfig
from zoo.gym.train.plan import FEW_ROWS

Want: TypeAlias = Literal["style", "facts", "preference", "reasoning", "tools", "lessons"]

Use: TypeAlias = Literal[
    "chat", "completion", "text", "pair", "rated", "answer", "tests", "prompt", "thought", "calls"
]

USES: dict[Use, str] = {
    "chat": "chats",
    "completion": "prompts with a completion",
    "text": "plain texts",
    "pair": "pairs of a better and a worse answer",
    "rated": "answers rated good or bad",
    "answer": "prompts with an answer to compare with",
    "tests": "prompts with unit tests",
    "prompt": "prompts without an answer",
    "thought": "answers with reasoning",
    "calls": "chats with tools",
}
"""What a row can be used as, in words; many rows can be used in several ways."""

CUTOFF: int = TrainConfig.model_fields["cutoff_len"].default
EXPERIENCE = "experience"
"""The method of lessons in text, which is no stage."""

VAL_SIZE = 0.1
"""The share of rows that the recipes hold out."""

FEW = math.ceil(FEW_ROWS / VAL_SIZE)
"""Fewer rows give fewer than `FEW_ROWS` held-out ones."""


@dataclass(frozen=True)
class Case:
    """What the conditions of the rules look at.

    Attributes:
        want: what the user wants.
        uses: the number of rows by what they can be used as.
        method: the method that was chosen; empty before that.
        rows: the number of rows that the method learns from.
        longest_tokens: the longest of them; 0 if the model's tokenizer is not on this machine.
        context_tokens: the most tokens that the model reads, 0 if unknown.
        duplicates: rows equal to an earlier one.
        device: the device that would train.
    """

    want: str
    uses: Mapping[Use, int] = field(default_factory=dict[Use, int])
    method: str = ""
    rows: int = 0
    longest_tokens: int = 0
    context_tokens: int = 0
    duplicates: int = 0
    device: str = "cpu"


def _no_settings(_: Case) -> dict[str, object]:
    return {}


def _always(_: Case) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """A row of the table.

    Attributes:
        name: for tests and JSON.
        part: `method`: the first that applies is taken, of those for the most rows; `setting` and
            `note`: all that apply; `memory`: in this order, until the run fits.
        condition: when it applies, in words; `{...}` are fields of the case.
        applies: the same as code.
        method: a stage, or `experience` for lessons in text.
        recipe: the middle of the recipe's name.
        settings: what is set.
        reason: why, in a sentence.
        wants: what a rule of part `method` is for.
        uses: the rows that its method learns from.
    """

    name: str
    part: Literal["method", "setting", "note", "memory"]
    condition: str
    reason: str
    wants: tuple[Want, ...] = ()
    uses: tuple[Use, ...] = ()
    method: str = ""
    recipe: str = ""
    settings: Callable[[Case], dict[str, object]] = _no_settings
    applies: Callable[[Case], bool] = _always


LEARNED_WHOLE = frozenset({"sft", "dpo", "kto"})
"""Methods whose rows are cut off after `cutoff_len` tokens."""


def _cutoff(case: Case) -> dict[str, object]:
    wanted = math.ceil(case.longest_tokens / 256) * 256
    return {"cutoff_len": min(wanted, case.context_tokens or wanted)}


def _too_long(case: Case) -> bool:
    learned = case.method in LEARNED_WHOLE and not case.uses.get("text")
    room = case.context_tokens == 0 or case.context_tokens > CUTOFF
    return learned and room and case.longest_tokens > CUTOFF


def _past_context(case: Case) -> bool:
    learned = case.method in LEARNED_WHOLE and not case.uses.get("text")
    return learned and 0 < case.context_tokens < case.longest_tokens


RULES: tuple[Rule, ...] = (
    Rule(
        "pairs",
        "method",
        "pairs of answers to one prompt",
        "DPO makes the better answer of each pair likelier than the worse one; the base beneath "
        "the adapter is the reference, so no second model is loaded (arXiv:2305.18290)",
        ("preference",),
        ("pair",),
        "dpo",
        "dpo",
    ),
    Rule(
        "ratings",
        "method",
        "single answers, rated good or bad",
        "KTO reads answers that are rated one by one; methods for pairs cannot use them "
        "(arXiv:2402.01306)",
        ("preference",),
        ("rated",),
        "kto",
        "kto",
    ),
    Rule(
        "scored_answers",
        "method",
        "prompts with an answer to compare with, or with unit tests",
        "GRPO samples answers to each prompt and makes those with a higher reward likelier; the "
        "reward is computed from the row's answer or tests (arXiv:2402.03300)",
        ("reasoning",),
        ("answer", "tests"),
        "grpo",
        "grpo",
    ),
    Rule(
        "thoughts",
        "method",
        "answers with reasoning before them",
        "supervised learning of the answers with their reasoning, which think=keep learns whatever "
        "the chat template prints",
        ("reasoning",),
        ("thought",),
        "sft",
        "lora",
        lambda _: {"think": "keep"},
    ),
    Rule(
        "calls",
        "method",
        "chats with definitions or calls of tools",
        "supervised learning: a call of a tool is a part of the assistant's turn and is learned, "
        "what the tool returned is only read",
        ("tools",),
        ("calls",),
        "sft",
        "lora",
    ),
    Rule(
        "lessons_scored",
        "method",
        "tasks with an answer to compare with, or with unit tests",
        "lessons are kept in text and put before a prompt; no weights change, and a gate on tasks "
        "that taught nothing keeps or refuses them (arXiv:2510.08191)",
        ("lessons",),
        ("answer", "tests"),
        EXPERIENCE,
    ),
    Rule(
        "lessons_majority",
        "method",
        "tasks without an answer",
        "there is no answer to compare with, so the one that most answers agree on counts as right",
        ("lessons",),
        ("prompt",),
        EXPERIENCE,
        settings=lambda _: {"reward": "majority"},
    ),
    Rule(
        "answers",
        "method",
        "chats, or prompts with a completion",
        "supervised learning of the assistant's turns; what others say is only read",
        ("style", "facts"),
        ("chat", "completion"),
        "sft",
        "lora",
    ),
    Rule(
        "texts",
        "method",
        "plain texts",
        "every token of a text is learned; it has no turns, so no way to answer is learned",
        ("facts", "style"),
        ("text",),
        "sft",
        "lora",
    ),
    Rule(
        "long_rows",
        "setting",
        "the longest row has more than 2,048 tokens, and the model reads more",
        "the longest row has {longest_tokens} tokens; without this, rows lose what is after "
        "the first 2048",
        settings=_cutoff,
        applies=_too_long,
    ),
    Rule(
        "past_context",
        "note",
        "the longest row has more tokens than the model reads",
        "the model reads {context_tokens} tokens, the longest row has {longest_tokens}: longer "
        "rows lose their end",
        applies=_past_context,
    ),
    Rule(
        "few_rows",
        "note",
        f"fewer than {FEW} rows",
        f"{{rows}} rows are few for measuring: a tenth is held out, and figures of fewer than "
        f"{FEW_ROWS} held-out rows show little",
        applies=lambda case: case.method != EXPERIENCE and case.rows < FEW,
    ),
    Rule(
        "duplicates",
        "note",
        "rows that equal an earlier one",
        "rows that equal an earlier one: {duplicates}; each is learned as often as it is there",
        applies=lambda case: case.duplicates > 0,
    ),
    Rule(
        "one_row_at_once",
        "memory",
        "the run does not fit",
        "one row is computed at a time, and the gradients of more are added up",
        settings=lambda _: {"per_device_train_batch_size": 1},
    ),
    Rule(
        "checkpointing",
        "memory",
        "it still does not fit",
        "activations are computed again in the backward pass, not kept: it takes a third more time",
        settings=lambda _: {"gradient_checkpointing": True},
    ),
    Rule(
        "shorter_rows",
        "memory",
        "it still does not fit, and rows are longer than 1,024 tokens",
        "rows lose what is after the first 1024 tokens, and need less memory",
        settings=lambda _: {"cutoff_len": 1024},
        applies=lambda case: case.longest_tokens > 1024,
    ),
    Rule(
        "four_bits",
        "memory",
        "it still does not fit",
        "QLoRA: the base is in 4 bits under the adapter (arXiv:2305.14314)",
        settings=lambda _: {"quantization_bit": 4},
    ),
    Rule(
        "streamed",
        "memory",
        "it still does not fit, on a CPU",
        "the base stays in its files, and each layer is read when it is computed",
        settings=lambda _: {"quantization_bit": None, "stream_layers": True},
        applies=lambda case: case.device == "cpu",
    ),
    Rule(
        "smaller_model",
        "memory",
        "it still does not fit, and a smaller model of the list does",
        "it is the largest listed model below {model} that fits",
    ),
)
"""All rules."""


def rules_of(part: str) -> tuple[Rule, ...]:
    """Returns the rules of a part, in their order."""
    return tuple(rule for rule in RULES if rule.part == part)


def method_for(case: Case) -> tuple[Rule, int] | None:
    """Returns the rule for most rows, the first of equals, and their number; None for no rule."""
    counted = [
        (rule, sum(case.uses.get(use, 0) for use in rule.uses))
        for rule in rules_of("method")
        if case.want in rule.wants
    ]
    usable = [(rule, rows) for rule, rows in counted if rows]
    return max(usable, key=lambda pair: pair[1], default=None)
