"""`zoo-gym chat`: a conversation on a terminal, or one prompt a line from a pipe."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.conversation import converse
from zoo.gym.cli.options import Json, Model, Offline, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import Tuned, find_tuned, resolve_base
from zoo.gym.errors import InputError
from zoo.gym.jobs import open_run
from zoo.models.offline import go_offline

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession

MaxTokens = Annotated[int, Parameter(name="--max_new_tokens")]


def chat(
    *,
    model: Model = None,
    adapter: Annotated[str | None, Parameter(name="--adapter_name_or_path")] = None,
    delta: str | None = None,
    run: str | None = None,
    max_new_tokens: MaxTokens = 256,
    temperature: float = 0.0,
    seed: int = 0,
    system: str | None = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Talks with a model; from a pipe, answers one prompt a line, each by itself.

    Args:
        model: the model's name or folder; not needed where the next three tell it
        adapter: a peft folder to put on the model
        delta: a delta file to put on the model
        run: a run whose result to talk with
        max_new_tokens: tokens of an answer at most
        temperature: 0 takes the most likely token; 1 draws as the model says
        seed: the seed of the draws
        system: what the model reads before the first prompt; by default what it was trained
            with; '' for nothing
        yes: answer the question for a download with yes
        offline: never use the network, not even after a question
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.chat import open_chat

    _check_numbers(max_new_tokens, temperature)
    tuned = find_tuned(run=run, adapter=adapter, delta=delta)
    base = (
        tuned.folder or resolve_base(model, tuned.base, "--model", yes=yes, offline=offline).folder
    )
    go_offline()  # a whole model of a run was not looked for
    out = Output(as_json)
    if system is None:
        system = _trained_system(tuned, run, out)
    with open_chat(
        base,
        adapter=tuned.adapter,
        delta=tuned.delta,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        system=system,
    ) as session:
        turns = converse(session, out) if sys.stdin.isatty() else _piped(session, out)
    out.result({"turns": turns, "system": system})
    return 0


def _trained_system(tuned: Tuned, run: str | None, out: Output) -> str:
    """Returns the system prompt of the training, and says that it is used or not to be had."""
    from zoo.gym.chat.trained import Trained, of_delta, of_result, of_run
    from zoo.gym.data.chat import shown

    place = tuned.adapter or tuned.folder
    if run is not None:
        found = of_run(open_run(run).folder)
    elif tuned.delta is not None:
        found = of_delta(tuned.delta)
    else:
        found = of_result(place) if place else Trained()
    if found.is_missing:
        out.say("it was trained with a system prompt, which is not here: give it with --system")
    if found.system:
        out.say(f"system prompt, as in training: {shown(found.system)} (--system changes it)")
    return found.system


def _piped(session: "ChatSession", out: Output) -> list[dict[str, str]]:
    """Answers each line of standard input by itself, as it comes."""
    turns: list[dict[str, str]] = []
    for line in iter(sys.stdin.readline, ""):
        prompt = line.rstrip("\r\n")
        if prompt.strip():
            turns.append({"prompt": prompt, "answer": session.answer(prompt)})
            out.answer(turns[-1]["answer"])
    return turns


def _check_numbers(max_new_tokens: int, temperature: float) -> None:
    if max_new_tokens < 1:
        raise InputError(f"--max_new_tokens: expected at least 1, got {max_new_tokens}")
    if not 0 <= temperature < float("inf"):
        raise InputError(f"--temperature: expected at least 0, got {temperature:g}")
