"""GSM8K, MATH and BIG-Bench Hard: the model writes an answer, or chooses it.

Prompts of plain text are those of lm-eval's tasks without their fixed examples: shots are rows of
the file. A part of BBH with few short answers is measured by choices, as the Open LLM Leaderboard
does; the others by the text of the answer.
"""

import re

from zoo.gym.evaluate.grading import by_choice, by_reward
from zoo.gym.evaluate.tasks.spec import Fields, Row, Spec, text

_OPTION = re.compile(r"^\(([A-Z])\)", re.MULTILINE)
_PAIRS = (("False", "True"), ("No", "Yes"), ("no", "yes"), ("invalid", "valid"))


def gsm8k_row(row: Fields) -> Row:
    """Returns a word problem; its answer ends with `#### 72`."""
    question, answer = text(row, "question"), text(row, "answer")
    return Row(
        plain=f"Question: {question}\nAnswer:",
        chat=f"{question}\nThink step by step. End with a line of #### and the number.",
        worked=answer,
        answer=answer,
    )


def math_row(row: Fields) -> Row:
    r"""Returns a problem of MATH; its solution contains the answer in `\boxed{}`."""
    problem, solution = text(row, "problem"), text(row, "solution")
    return Row(
        plain=f"Problem:\n{problem}\n\nSolution:",
        chat=f"{problem}\nPut your final answer in \\boxed{{}}.",
        worked=solution,
        answer=solution,
    )


def bbh_row(row: Fields) -> Row:
    """Returns a row of BBH, with choices if its target is one of a known set."""
    asked, target = text(row, "input"), text(row, "target").strip()
    choices: tuple[str, ...] = next((pair for pair in _PAIRS if target in pair), ())
    if re.fullmatch(r"\([A-Z]\)", target):
        choices = tuple(f"({letter})" for letter in _OPTION.findall(asked))
    if target not in choices:
        choices = ()
    how = f"Answer with {' or '.join(choices)} alone." if choices else "Write the answer alone."
    return Row(
        plain=f"Q: {asked}\nA:",
        chat=f"{asked}\n{how}",
        worked=target,
        choices=choices,
        right=(choices.index(target),) if choices else (),
        answer=target,
    )


GSM8K = Spec(
    name="gsm8k",
    files=("gsm8k*.jsonl", "gsm8k*.parquet", "gsm8k/*.jsonl", "gsm8k/*.parquet"),
    form="rows of question and answer (which ends with #### NUMBER)",
    read=gsm8k_row,
    how="generate",
    grade=by_reward("numeric"),
    reward="numeric",
    graded_by="the last number of the answer",
    stops=("Question:",),
)

MATH = Spec(
    name="math",
    files=("math*.jsonl", "math*.parquet", "math/*.jsonl", "math/*.parquet"),
    form="rows of problem and solution (with \\boxed{ANSWER})",
    read=math_row,
    how="generate",
    grade=by_reward("math"),
    reward="math",
    graded_by="the final answer as mathematics",
    max_new_tokens=1024,
    stops=("Problem:",),
)

BBH = Spec(
    name="bbh",
    files=("bbh_*.json", "bbh/*.json", "bbh_*.jsonl", "bbh/*.jsonl"),
    form="examples of input and target",
    read=bbh_row,
    how="choices",
    grade=by_choice,
    graded_by="the likeliest choice",
    max_new_tokens=128,
    stops=("Q:", "\n\n"),
    has_parts=True,
    is_split=True,
)

BBH_WRITTEN = by_reward("exact")
"""The grade of the parts of BBH whose answers are written."""
