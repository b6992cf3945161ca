"""`zoo-gym inference`: an answer to every row of a data file."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from zoo.gym.cli.chosen import (
    Adapter,
    Chosen,
    MaxTokens,
    check_numbers,
    choose,
    refuse_server,
    sampled_as,
    trained_system,
)
from zoo.gym.cli.options import Json, Model, Offline, Template, Yes, output_path
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import PLAIN_LINES
from zoo.gym.cli.sources import template_of
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, duration
from zoo.gym.terminal import visible

if TYPE_CHECKING:
    from zoo.backends.sampling import Sampling
    from zoo.gym.chat.answer_lines import Totals
    from zoo.gym.files.resumable import Resumable


def inference(
    file: str | None = None,
    /,
    *,
    model: Model = None,
    adapter: Adapter = None,
    delta: str | None = None,
    run: str | None = None,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    max_new_tokens: MaxTokens = 256,
    temperature: float | None = None,
    top_p: Annotated[float | None, Parameter(name="--top_p")] = None,
    seed: int = 0,
    system: str | None = None,
    template: Template = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Answers every row of a data file, in lines of JSON; after a kill the same command goes on.

    Args:
        file: prompts or chats, in any format of `data inspect`
        model: the model's name, folder or GGUF file; as in `chat`
        adapter: a peft folder or a LoRA adapter in GGUF
        delta: a delta file to apply to the model
        run: a run whose result answers
        out: the file to write (default FILE.answers.jsonl)
        max_new_tokens: the most tokens of an answer
        temperature: 0 picks the likeliest token; by default as the model says
        top_p: sample from the likeliest tokens of this total probability
        seed: the sampling seed
        system: of rows without a system prompt; default: as trained
        template: the chat template, by name or a file, as in `chat`
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.chat.answer_lines import settings_of
    from zoo.gym.files.resumable import resumable

    _require(file, model, adapter, delta, run)
    refuse_server(model)
    check_numbers(max_new_tokens, temperature, seed)
    _check_top_p(top_p, temperature)
    screen = Output(as_json)
    source = existing(str(file), "a file of prompts")
    target = output_path(out, f"{source.name.partition('.')[0]}.answers.jsonl")
    rows = _counted_rows(source, screen)
    template = template_of(template, screen)
    chosen = choose(model=model, adapter=adapter, delta=delta, run=run, yes=yes, offline=offline)
    if system is None:
        system = trained_system(chosen.tuned, screen)
    drawn: dict[str, object] = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    drawn |= {"top_p": top_p, "seed": seed, "system": system}
    screen.say("reading what the answers depend on")
    settings = settings_of(source, chosen.base, chosen.adapter, chosen.delta, template, drawn)
    notes = {"date": time.strftime("%Y-%m-%d"), "file": str(source), "model": chosen.name}
    with resumable(target, settings, notes) as written:
        if written.is_complete:
            screen.say("all rows were answered before")
        try:
            totals = _answered(
                written, source, chosen, drawn | {"template": template}, rows, screen
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command goes on") from None
    _report(totals, target, max_new_tokens, screen)
    return 0


def _require(file: str | None, *models: str | None) -> None:
    """Refuses a command without a file or a model.

    Raises:
        InputError: it has none.
    """
    if file is None:
        raise InputError(
            "FILE: expected a file of prompts to answer, got none",
            hint="zoo-gym chat talks in the terminal, zoo-gym serve answers programs",
            code="cli.missing_argument",
        )
    if all(value is None for value in models):
        raise InputError(
            "inference: expected --model, --run, --adapter_name_or_path or --delta, got none",
            hint="zoo-gym models list has the names",
            code="cli.nothing_to_answer_with",
        )


def _check_top_p(top_p: float | None, temperature: float | None) -> None:
    if top_p is not None and not 0 < top_p <= 1:
        raise InputError(
            f"--top_p: expected more than 0 and at most 1, got {top_p:g}", code="cli.bad_value"
        )
    if top_p is not None and temperature == 0:
        raise InputError("--top_p: has no effect with --temperature 0", code="cli.no_effect")


def _with_top_p(sampling: "Sampling", top_p: float) -> "Sampling":
    if not sampling.temperature:
        raise InputError(
            "--top_p: has no effect: the model's own settings pick the most likely token",
            hint="--temperature 1",
            code="cli.no_effect",
        )
    return replace(sampling, top_p=top_p)


def _counted_rows(source: Path, screen: Output) -> int:
    """Returns how many rows there are, and says which of their keys are not read.

    Raises:
        InputError: there is no row, or none can be asked.
    """
    from zoo.gym.chat.rows import questions
    from zoo.gym.data.reading.keys import unread_note

    unread, problems, rows = Counter[str](), list[str](), 0
    for question in questions(source, unread):
        rows += 1
        if question.problem:
            problems.append(f"row {question.row}: {question.problem}")
    if rows == len(problems):
        first = problems[0] if problems else "expected rows of prompts, got none"
        raise InputError(f"{source}: no row can be answered: {first}", code="cli.nothing_to_answer")
    if unread:
        screen.say(unread_note(visible(str(source)), unread))
    return rows


def _answered(
    written: "Resumable",
    source: Path,
    chosen: Chosen,
    options: dict[str, Any],
    rows: int,
    screen: Output,
) -> "Totals":
    """Answers the rows that have no line yet, and returns the counts of all."""
    from zoo.gym.chat import open_chat
    from zoo.gym.chat.answer_lines import Totals, line_of, text_of
    from zoo.gym.chat.rows import questions, replies

    totals, top_p = Totals(), options.pop("top_p")
    for line in written.lines():
        totals.add(line)
    if written.is_complete or (before := totals.rows) == rows:
        return totals
    if before:
        screen.say(f"{before:,} of {rows:,} rows were answered before")
    screen.say(chosen.loading)
    with open_chat(chosen.base, adapter=chosen.adapter, delta=chosen.delta, **options) as session:
        # a template may print the date: that of the start, on whatever day it ends
        session.options = replace(session.options, date=str(written.notes["date"]))
        sampling = session.sampling
        if options["temperature"] is None and sampling.temperature:
            screen.say(sampled_as(session))
        if top_p is not None:
            sampling = _with_top_p(sampling, top_p)
        show = _progress(totals, rows, screen)
        asked = islice(questions(source), before, None)
        for reply in replies(session, asked, sampling, first=before):
            line = line_of(reply)
            written.append(text_of(line))
            totals.add(line)
            show()
    return totals


def _progress(totals: "Totals", rows: int, screen: Output) -> Callable[[], None]:
    """Returns a function that shows how far it is, after each row."""
    began, before = time.monotonic(), replace(totals)

    def show() -> None:
        seconds = max(1e-9, time.monotonic() - began)
        tokens = totals.completion_tokens - before.completion_tokens
        left_s = seconds / (totals.rows - before.rows) * (rows - totals.rows)
        parts = [f"row {totals.rows:,}/{rows:,}", f"{tokens / seconds:,.0f} tokens/s"]
        parts += [f"{counted(totals.errors, 'error')}"] if totals.errors else []
        parts += [f"{duration(left_s)} left"] if rows > totals.rows else []
        is_kept = totals.rows == rows or totals.rows % max(1, rows // PLAIN_LINES) == 0
        screen.progress("  ".join(parts), keep=is_kept)

    return show


def _report(totals: "Totals", target: Path, max_new_tokens: int, screen: Output) -> None:
    answered = totals.rows - totals.errors
    screen.answer(f"{target}: {counted(answered, 'answer')} to {counted(totals.rows, 'row')}")
    if totals.errors:
        screen.say(f"{counted(totals.errors, 'row')} could not be answered: see 'error' there")
    if totals.cut:
        cut = f"{counted(totals.cut, 'answer')} cut after {max_new_tokens} tokens"
        screen.say(f"{cut}: --max_new_tokens for longer ones, and another --out")
    screen.result({"file": str(target), **asdict(totals)})
