"""`zoo-gym eval`: measures models on held-out rows, on rows of a file, or on tasks."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.options import Json, Switch, Yes, confirmed, output_path
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.files import check_new_file, write_beside
from zoo.gym.humanize import counted
from zoo.gym.offline import go_offline
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.evaluate.endpoint import Spending
    from zoo.gym.evaluate.items import Measure
    from zoo.gym.evaluate.results import Result
    from zoo.gym.evaluate.sources import Contender


def evaluate(
    *sources: str,
    tasks: str | None = None,
    data: str | None = None,
    limit: int | None = None,
    shots: int | None = None,
    plain: Switch = False,
    base: str | None = None,
    alone: Switch = False,
    max_new_tokens: Annotated[int | None, Parameter(name="--max_new_tokens")] = None,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Measures models on the same rows; a fine-tune beside its base. After a kill it goes on.

    Args:
        sources: runs (last), deltas, adapters, models, GGUF files, models on servers
        tasks: NAME[,NAME]: gsm8k, math, bbh, mmlu, truthfulqa_mc1, truthfulqa_mc2, humaneval, mbpp,
            ifeval, tools, safety; by default the rows that a run held out
        data: the folder of the tasks' files, or without tasks a file of rows with answers
        limit: the most rows of a task, evenly spaced
        shots: rows of a task's file that are shown as examples, and not asked (default 0)
        plain: prompts as plain text, without the chat template
        base: the base of the fine-tunes, where they record none
        alone: measure a single fine-tune without its base
        max_new_tokens: the most tokens of an answer
        out: also write the report to this file, as JSON
        max_usd: the cap on calls of each model on a server, in USD
        max_tokens: that cap in tokens
        yes: send questions to hosts that are new without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.evaluate.endpoint import Spending
    from zoo.gym.evaluate.measuring import measure_source
    from zoo.gym.evaluate.requirements import possible

    screen = Output(as_json)
    go_offline()
    _check_numbers(limit=limit, max_new_tokens=max_new_tokens)
    options = {"limit": limit, "max_new_tokens": max_new_tokens}
    target = None if out is None else output_path(out, "")
    if target is not None:
        check_new_file(target)
    contenders = _contenders(sources, base, screen, alone=alone)
    if tasks is None:
        _refuse_without_tasks(shots=shots is not None, plain=plain)
        measures = _rows(contenders, data, limit, max_new_tokens, screen)
        measures = possible(contenders, measures, screen.say)
    else:
        measures = _tasks(tasks, data, shots, options, is_plain=plain)
    if max_new_tokens is not None and all(measure.how != "generate" for measure in measures):
        raise InputError(
            "--max_new_tokens: has no effect: expected rows whose answers are written, got "
            f"{', '.join(measure.title for measure in measures)}",
            code="cli.no_effect",
        )
    for note in (note for measure in measures for note in measure.notes):
        screen.say(note)
    spending = Spending(max_usd, max_tokens)
    _check_servers(contenders, measures, spending, yes=yes)
    by_source: list[list[Result]] = []
    try:
        for each in contenders:
            first = by_source[0] if by_source else ()
            by_source.append(
                measure_source(each, measures, screen.say, screen.progress, spending, first)
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None
    _report(list(zip(*by_source, strict=True)), target, screen)
    return 0


def _report(groups: "Sequence[Sequence[Result]]", target: Path | None, screen: Output) -> None:
    """Prints the figures, and writes them to `--out`."""
    from zoo.gym.evaluate.report import as_json, equal_lines, report_lines

    for results in groups:
        for line in report_lines(results):
            screen.answer(line)
    for results in groups:
        for line in equal_lines(results):
            screen.say(line)
    answer = as_json(groups)
    if target is not None:
        write_beside(target, json.dumps(answer, ensure_ascii=False, indent=1) + "\n")
    screen.result(answer)


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise InputError(f"--{name}: expected at least 1, got {value}", code="cli.bad_value")


def _contenders(
    sources: Sequence[str], base: str | None, screen: Output, *, alone: bool
) -> "list[Contender]":
    """Returns the sources, a single fine-tune behind its base."""
    from zoo.gym.evaluate.sources import base_of, resolve_contender

    if not sources:
        raise InputError(
            "eval: expected a run, a delta, an adapter or a model, got none",
            hint="zoo-gym eval last measures the newest run on its held-out rows",
            code="cli.missing_argument",
        )
    contenders = [resolve_contender(word, base) for word in sources]
    _refuse_twice(sources, contenders)
    is_fine_tune = contenders[0].tuned is not None or contenders[0].lora is not None
    if alone and (len(contenders) > 1 or not is_fine_tune):
        raise InputError("--alone: has no effect but with a single fine-tune", code="cli.no_effect")
    if len(contenders) == 1 and not alone:
        before = base_of(contenders[0])
        if before is not None:
            return [before, contenders[0]]
        if contenders[0].tuned is not None:
            screen.say(f"base '{contenders[0].base_name}' is not on this machine: not compared")
    return contenders


def _refuse_twice(sources: Sequence[str], contenders: "Sequence[Contender]") -> None:
    """Refuses two words that name the same model.

    Raises:
        InputError: there are some.
    """
    named = zip(sources, contenders, strict=True)
    for (word, contender), (other, another) in combinations(named, 2):
        if (contender.parts, contender.server) == (another.parts, another.server):
            raise InputError(
                f"eval: expected different models, got one twice: '{word}' and '{other}'",
                code="cli.given_twice",
            )


def _check_servers(
    contenders: "Sequence[Contender]",
    measures: "Sequence[Measure]",
    spending: "Spending",
    *,
    yes: bool,
) -> None:
    """Refuses what a source cannot give, and asks for consent before questions leave."""
    from zoo.gym.evaluate.requirements import require
    from zoo.gym.experience.providers.names import require_consent

    for contender in contenders:
        for measure in measures:
            require(contender, measure)
    servers = [each.server for each in contenders if each.server is not None]
    if not servers and (spending.usd is not None or spending.tokens is not None):
        raise InputError(
            "--max-usd, --max-tokens: have no effect without a model on a server",
            code="cli.no_effect",
        )
    for server in servers:
        count = sum(len(measure.items) for measure in measures)
        leaves = f"{counted(count, 'question')} leave this machine; cap: {spending.cap(server)}."
        require_consent([server], leaves, lambda text: confirmed(text, yes=yes))


def _refuse_without_tasks(**options: bool) -> None:
    for name, is_given in options.items():
        if is_given:
            raise InputError(f"--{name}: has no effect without --tasks", code="cli.no_effect")


def _tasks(
    names: str,
    data: str | None,
    shots: int | None,
    options: "dict[str, int | None]",
    *,
    is_plain: bool,
) -> "list[Measure]":
    """Returns how models are measured on tasks, whose files are in a folder."""
    from zoo.gym.evaluate.tasks.table import measures_of_tasks

    if shots is not None and shots < 0:
        raise InputError(f"--shots: expected at least 0, got {shots}", code="cli.bad_value")
    folder = None if data is None else given_path(data)
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"--data: expected the folder of the tasks' files, got '{data}'", code="cli.bad_value"
        )
    limit, tokens = options["limit"], options["max_new_tokens"]
    return measures_of_tasks(
        names, folder, shots=shots, limit=limit, max_new_tokens=tokens, is_plain=is_plain
    )


def _rows(
    contenders: "Sequence[Contender]",
    data: str | None,
    limit: int | None,
    tokens: int | None,
    screen: Output,
) -> "list[Measure]":
    """Returns how models are measured on rows: those of a file, or those that a run held out."""
    from zoo.gym.evaluate.held_out import learners_of, measures_of_file, measures_of_run

    if data is not None:
        path = given_path(data)
        if not path.is_file():
            raise InputError(f"--data: expected a file of rows, got '{data}'", code="cli.bad_value")
        return measures_of_file(path, limit, tokens)
    trained = next((each for each in contenders if each.run is not None), None)
    if trained is None:
        raise InputError(
            "eval: expected --tasks, --data FILE or a run with held-out rows, got none of them",
            code="cli.nothing_to_measure",
        )
    learners = learners_of(trained, contenders)
    if learners:
        screen.say(f"held out by {trained.name}; {', '.join(learners)} may have learned these rows")
    return measures_of_run(trained, limit, tokens, learners)
