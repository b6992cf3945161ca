"""`zoo-gym experience trial`: does learning without training help a model of yours, for 1 USD?"""

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from zoo.gym.cli.experience import begin, resolve_local
from zoo.gym.cli.options import Json, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.experience.learning.split import LEAST_TASKS
from zoo.gym.experience.models import named_models
from zoo.gym.experience.settings import ExperienceConfig

ENVIRONMENTS = ("letter_counting", "number_sequence", "word_sorting")
MOST_USD = 1.0

LEAST_PARAMETERS = 3_900_000_000
"""Of a model of this machine: what its makers call 4 B. Smaller ones rarely teach themselves."""


def trial(
    *,
    model: Annotated[str | None, Parameter(name="--model")] = None,
    teacher: str | None = None,
    environment: Annotated[tuple[str, ...], Parameter(negative=())] = ENVIRONMENTS,
    tasks: int = 160,
    seed: int = 42,
    max_tokens: int | None = None,
    yes: Yes = False,
    detach: Switch = False,
    as_json: Json = False,
) -> int:
    """Learns lessons for fresh tasks of reasoning-gym with a model of yours, for 1 USD at most.

    Args:
        model: the model that answers: one on a server, or one of this machine from 4 B parameters;
            without it nothing is run
        teacher: the model that proposes lessons; by default the same
        environment: environments of reasoning-gym, each with as many tasks
        tasks: tasks of all together: half teach, a quarter each is for the gate and the test
        seed: another one draws other tasks
        max_tokens: the cap on all calls, in tokens
        yes: send tasks to a host that is new without asking
        detach: return as soon as the run has started
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.start import prepare_files
    from zoo.gym.rewards.environments.package import require_package

    out = Output(as_json)
    if model is None:
        out.answer("not run: expected --model: a model on a server, or one from 4 B parameters")
        out.result({"state": "not run", "run": None, "verdict": None})
        return 0
    require_package()
    if tasks < LEAST_TASKS:
        raise InputError(
            f"--tasks: expected at least {LEAST_TASKS}, got {tasks}", code="cli.too_few_tasks"
        )
    config = ExperienceConfig(
        model=model,
        teacher=teacher or "",
        reward="environment",
        group_size=4,
        max_epochs=1,
        max_tokens=max_tokens,
        seed=seed,
        domain=f"reasoning-gym: {', '.join(environment)}",
    )
    paid = [model for model in named_models(config).on_servers if model.price is not None]
    config = config.model_copy(update={"max_usd": MOST_USD}) if paid else config
    resolve_local({"model": model, "teacher": teacher}, yes=yes, offline=False)
    _require_able(config)
    with tempfile.TemporaryDirectory() as folder:
        files = [_rows(Path(folder), name, tasks // len(environment), seed) for name in environment]
        named = config.model_copy(update={"name": f"trial-{environment[0]}"[:40].replace("_", "-")})
        prepared = prepare_files(named, files)
    return begin(out, prepared, yes=yes, detach=detach)


def _require_able(config: ExperienceConfig) -> None:
    """Refuses a model of this machine that is too small to say anything.

    Raises:
        InputError: it has fewer parameters.
    """
    from zoo.models import resolve
    from zoo.models.folder import count_parameters

    for local in named_models(config).in_process:
        count = count_parameters(resolve(local.id, offline=True).folder)
        if count < LEAST_PARAMETERS:
            raise InputError(
                f"{local.id}: expected a model from 4 B parameters, got {count / 1e9:.2g} B: "
                "smaller ones rarely follow lessons, so that nothing would be shown",
                hint="--model http://127.0.0.1:8080/v1#MODEL, or --model zen-eco",
                code="cli.model_too_small",
            )


def _rows(folder: Path, environment: str, count: int, seed: int) -> Path:
    from zoo.gym.rewards.environments.rows import rows

    path = folder / f"{environment}.jsonl"
    path.write_text("".join(f"{line}\n" for line in rows(environment, count, seed)), "utf-8")
    return path
