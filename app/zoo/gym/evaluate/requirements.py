"""What a measure needs of a source: log-probabilities, tools, or prompts as plain text.

A server writes answers only, and llama.cpp gives no log-probabilities of a prompt.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from zoo.gym.chat.gguf import is_gguf_file
from zoo.gym.data import load_tokenizer
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Measure
from zoo.gym.evaluate.sources import Contender


def unmet(contender: Contender, measure: Measure) -> str:
    """Returns what a source cannot give that a measure needs, in words; empty if it can all."""
    is_server = contender.server is not None
    is_gguf = contender.base is not None and is_gguf_file(contender.base)
    if measure.how != "generate" and (is_server or is_gguf):
        return "log-likelihoods"
    if measure.tokenizer is not None and not _same_tokens(contender, measure.tokenizer):
        return "log-likelihoods of the same tokens: its tokenizer is another one"
    if is_server and measure.is_plain:
        return "prompts as plain text"
    if is_server and any(item.task.tools for item in measure.items):
        return "tools"
    return ""


def _same_tokens(contender: Contender, folder: Path) -> bool:
    """Returns whether each id is the same token for a source as in a folder."""
    if contender.base is None or contender.base == folder:
        return True
    ours, theirs = (
        load_tokenizer(each).backend_tokenizer.get_vocab() for each in (contender.base, folder)
    )
    return bool(ours == theirs)


def require(contender: Contender, measure: Measure) -> None:
    """Refuses a measure that a source cannot give.

    Raises:
        InputError: it cannot.
    """
    if needs := unmet(contender, measure):
        hint = "tasks with written answers: gsm8k, math, humaneval, mbpp, ifeval, safety"
        kind = "a model on a server"
        if contender.server is None:
            is_gguf = contender.base is not None and is_gguf_file(contender.base)
            kind = "a GGUF file" if is_gguf else "this model"
            if is_gguf:
                hint = f"zoo-gym models import {contender.base} makes a model that can; or {hint}"
        raise InputError(
            f"{measure.name}: needs {needs}, which {kind} does not give: {contender.name}",
            hint=hint,
            code="evaluate.not_given",
        )


def possible(
    contenders: Sequence[Contender], measures: Sequence[Measure], say: Callable[[str], None]
) -> list[Measure]:
    """Returns the measures that all sources can give, and says which are left out and why.

    Raises:
        InputError: there is none.
    """
    kept: list[Measure] = []
    for measure in measures:
        unable = next((each for each in contenders if unmet(each, measure)), None)
        if unable is None:
            kept.append(measure)
        else:
            say(f"not measured: {measure.title}: {unable.name} gives no {unmet(unable, measure)}")
    if not kept:
        for contender in contenders:
            for measure in measures:
                require(contender, measure)
    return kept
