"""`zoo-gym chat`: a conversation on a terminal, or one prompt per line from a pipe."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.chosen import (
    Adapter,
    MaxTokens,
    check_numbers,
    choose,
    refuse_server,
    sampled_as,
    trained_system,
)
from zoo.gym.cli.conversation import answer_lines, converse, keep_odd_bytes
from zoo.gym.cli.options import Json, Model, Offline, Template, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import template_of
from zoo.gym.errors import InputError
from zoo.gym.jobs import run_folders
from zoo.gym.jobs.run import is_experience
from zoo.models import PICO, cached_ids, resolve
from zoo.models.gguf import imported_names
from zoo.models.registry import CANNOT_CONVERSE

if TYPE_CHECKING:
    from zoo.gym.chat import ChatSession
    from zoo.gym.tuned.source import Source


def chat(
    *,
    model: Model = None,
    adapter: Adapter = None,
    delta: str | None = None,
    run: str | None = None,
    max_new_tokens: MaxTokens = 256,
    temperature: float | None = None,
    seed: int = 0,
    system: str | None = None,
    template: Template = None,
    experience: str | None = None,
    top_k: int | None = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Chats with a model; from a pipe, answers one prompt per line, each on its own.

    Answer n belongs to line n: a blank line gets an empty answer, a line end in an answer is
    written as a backslash and n, and a backslash twice. The answers as they are: --json.

    Args:
        model: the model's name, folder or GGUF file, or BASE:NAME for a stored variant; not needed
            if one of the next three specifies it, refused with a run that trained a whole model
        adapter: a peft folder, or for a GGUF file a LoRA adapter in GGUF, to apply to the model
        delta: a delta file to apply to the model
        run: a run whose result to chat with
        max_new_tokens: the maximum number of tokens in an answer
        temperature: 0 picks the most likely token, without penalties or bans from the model's
            files; 1 samples from the model's distribution; by default what its
            generation_config.json says, and 0 if that says nothing
        seed: the sampling seed
        system: the system prompt; by default the one it was trained with; '' for none
        template: the chat template, by name or a file, as in training; by default that of the
            fine-tune, or else the model's own
        experience: libraries of lessons to read before the prompt: NAME[,NAME]
        top_k: lessons in a prompt at most: those that share most words with what you said; by
            default as they were measured
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.chat import open_chat
    from zoo.gym.experience.use import lessons_of

    if all(value is None for value in (model, adapter, delta, run)):
        raise _nothing_named()
    refuse_server(model)
    keep_odd_bytes()
    check_numbers(max_new_tokens, temperature, seed)
    name = model or ""
    _check_top_k(top_k, experience)
    out = Output(as_json)
    template = template_of(template, out)
    lessons = None if experience is None else lessons_of(experience, name, top_k, out.say)
    chosen = choose(model=model, adapter=adapter, delta=delta, run=run, yes=yes, offline=offline)
    tuned = chosen.tuned
    if system is None:
        system = trained_system(tuned, out)
    out.say(chosen.loading)
    if chosen.is_pico:
        out.say(f"{PICO} {CANNOT_CONVERSE}")
    with open_chat(
        chosen.base,
        adapter=chosen.adapter,
        delta=chosen.delta,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        system=system,
        template=template,
    ) as session:
        if lessons is not None:
            session.lessons = lessons.text
            for notice in lessons.notices:
                out.say(notice)
        if temperature is None and session.sampling.temperature:
            out.say(sampled_as(session))
        if sys.stdin.isatty():
            with UntunedModel(chosen.base, tuned, template) as untuned:
                ask_base = None if tuned is None and chosen.lora is None else untuned.answer
                turns = converse(session, out, name, top_k, ask_base)
        else:
            turns = answer_lines(session, out)
    out.result({"turns": turns, "system": system})
    return 0


class UntunedModel(ExitStack):
    """The base of a fine-tune, loaded when it is asked for the first time.

    Args:
        folder: the base, or a whole fine-tune.
        tuned: the fine-tune; None for a model alone.
        template: the chat template of the conversation, if it was given.
    """

    def __init__(self, folder: Path, tuned: "Source | None", template: str | None = None) -> None:
        super().__init__()
        self._folder, self._tuned, self._template = folder, tuned, template
        self._opened: ChatSession | None = None

    def answer(self, session: "ChatSession") -> str:
        """Returns what it answers to the last turn of a conversation with the fine-tune."""
        base = self._opened or self._open()
        base.system, base.lessons = session.system, session.lessons
        base.sampling = replace(session.sampling, stop_ids=base.sampling.stop_ids)
        base.messages, base.seed = session.messages[:-2], session.seed
        base.options = replace(base.options, joint=session.options.joint)
        return base.talk(session.messages[-2].content)

    def _open(self) -> "ChatSession":
        from zoo.gym.chat import open_chat

        folder = self._folder
        if self._tuned is not None and self._tuned.artifact == "model":
            folder = resolve(str(self._tuned.base), offline=True).folder
        self._opened = self.enter_context(open_chat(folder, system="", template=self._template))
        return self._opened


def _nothing_named() -> InputError:
    """Returns the error of a chat with nothing, with what there is to talk with."""
    runs = (run for run in run_folders() if not is_experience(run))
    finished = [run.id for run in runs if run.result.is_dir()]
    here = [*imported_names(), *cached_ids()]
    offers = [f"zoo-gym chat --run {finished[0]} (the newest with a result)"] if finished else []
    model = f"zoo-gym chat --model {here[0] if here else PICO}"
    model += f" (here: {', '.join(here[:5])})" if here else f", which {CANNOT_CONVERSE}"
    return InputError(
        "chat: expected --model, --run, --adapter_name_or_path or --delta, got none",
        hint=", or ".join([*offers, model]),
        code="cli.nothing_to_chat_with",
    )


def _check_top_k(top_k: int | None, experience: str | None) -> None:
    """Checks how many lessons are read."""
    from zoo.gym.experience.library.library import MOST_ITEMS

    if top_k is not None and experience is None:
        raise InputError("--top-k: has no effect without --experience", code="cli.no_effect")
    if top_k is not None and not 1 <= top_k <= MOST_ITEMS:
        raise InputError(f"--top-k: expected 1 to {MOST_ITEMS}, got {top_k}", code="cli.bad_value")
