"""`zoo-gym data make`: tasks of an environment of reasoning-gym as a file of examples."""

from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from zoo.gym.cli.options import Json, Switch
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.files import check_new_file, write_beside


def make(
    environment: str,
    /,
    *options: str,
    rows: Annotated[int, Parameter(name="--rows")] = 500,
    seed: Annotated[int, Parameter(name="--seed")] = 42,
    out: Annotated[str | None, Parameter(name="--out")] = None,
    force: Switch = False,
    as_json: Json = False,
) -> int:
    """Writes tasks of an environment of reasoning-gym as rows to learn by reward.

    Args:
        environment: its name, such as chain_sum
        options: KEY=VALUE, options of the environment
        rows: the number of tasks
        seed: another one gives other tasks
        out: the file to write; by default ENVIRONMENT.jsonl
        force: replace the file
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rewards.environments.rows import rows as tasks

    screen = Output(as_json)
    if rows < 1:
        raise InputError(f"--rows: expected at least 1, got {rows}", code="cli.bad_value")
    target = Path(out or f"{environment}.jsonl")
    check_new_file(target)
    if target.exists() and not force:
        raise InputError(
            f"output {str(target)!r}: expected a new file, got one that exists",
            hint="choose another name with --out, or replace the file with --force",
            code="cli.output_exists",
        )
    text = "".join(f"{line}\n" for line in tasks(environment, rows, seed, _options(options)))
    write_beside(target, text)
    screen.answer(f"{target}: {rows:,} tasks of {environment}")
    screen.say(f"  zoo-gym train {target} stage=grpo --model zen-nano    learns them by reward")
    screen.result({"file": str(target), "rows": rows, "environment": environment, "seed": seed})
    return 0


def _options(words: tuple[str, ...]) -> dict[str, object]:
    """Returns the options of an environment.

    Raises:
        InputError: one is not KEY=VALUE, or the value cannot be read.
    """
    options: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key or key in {"seed", "size"}:
            hint = "the seed is --seed, the number of tasks --rows" if equals else None
            raise InputError(
                f"{word}: expected KEY=VALUE of the environment", hint=hint, code="cli.bad_value"
            )
        try:
            options[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(
                f"{word}: expected a number, text or a list", code="cli.bad_value"
            ) from None
    return options
