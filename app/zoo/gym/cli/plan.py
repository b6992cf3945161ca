"""`zoo-gym plan`: the sizes of a model's deltas, for one user and for many."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.humanize import human_bytes

if TYPE_CHECKING:
    from zoo.gym.delta.planning.base import PlanBase
    from zoo.gym.delta.planning.plan import Planned
    from zoo.gym.delta.planning.synthetic import Trial

_BF16_BYTES = 2


def plan(
    *,
    base: str = "zen-eco",
    users: int = 10_000,
    rank: int = 16,
    measure: str | None = None,
    as_json: Json = False,
) -> int:
    """Shows the sizes of a model's deltas, for one user and for many.

    Args:
        base: a listed model, whose weights are not needed; or a folder or model here
        users: the number of variants that share one base
        rank: the rank of low-rank deltas
        measure: a folder in which each file is written from random weights of the model's true
            shape, read back, applied and removed; zen-eco takes minutes and 10 GB
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.delta.planning.base import plan_base
    from zoo.gym.delta.planning.plan import plan_shapes

    out = Output(as_json)
    for key, value in (("users", users), ("rank", rank)):
        if value < 1:
            raise InputError(f"{key}: expected at least 1, got {value}", code="cli.bad_value")
    model = plan_base(base)
    if model.notice:
        out.say(model.notice)
    base_bytes = model.parameters * _BF16_BYTES
    planned = plan_shapes(model.linear, model.whole, model.id, rank=rank)
    out.answer(_title(model, base_bytes, users))
    head = f"{'delta':<18} {'payload bytes':>14} {'file bytes':>14} {'more':>6}"
    out.answer(f"{head} {_people(users):>14} {'with base':>9}")
    for delta in planned:
        out.answer(_row(delta, users, base_bytes))
    trials = _trials(planned, Path(measure), out) if measure else {}
    out.result(
        {
            "base": model.name.partition(" ")[0],
            "parameters": model.parameters,
            "base_bytes": base_bytes,
            "users": users,
            "rank": rank,
            "deltas": [_as_json(delta, users, trials.get(delta.name)) for delta in planned],
        }
    )
    return 0


def _title(model: "PlanBase", base_bytes: int, users: int) -> str:
    return (
        f"{model.name}: {model.parameters:,} weights, "
        f"{human_bytes(base_bytes)} as bf16, shared by {_people(users)}"
    )


def _people(users: int) -> str:
    return f"{users:,} user{'' if users == 1 else 's'}"


def _row(delta: "Planned", users: int, base_bytes: int) -> str:
    over = delta.file_bytes / delta.payload_bytes - 1
    all_files = users * delta.file_bytes
    return (
        f"{delta.name:<18} {delta.payload_bytes:>14,} {delta.file_bytes:>14,} {over:>+6.1%} "
        f"{human_bytes(all_files):>14} {human_bytes(all_files + base_bytes):>9}"
    )


def _trials(planned: "list[Planned]", folder: Path, out: Output) -> "dict[str, Trial]":
    from zoo.gym.delta.planning.synthetic import try_plan

    trials = try_plan(planned, folder, report=out.progress)
    out.answer("")
    out.answer(f"{'':<18} {'payload read':>14} {'file written':>14} {'as planned':>11} {'kept':>6}")
    for trial in trials:
        same = "yes" if trial.as_planned else "NO"
        out.answer(
            f"{trial.name:<18} {trial.payload_bytes:>14,} {trial.file_bytes:>14,} {same:>11} "
            f"{trial.kept:>6.1%}"
        )
    out.say(
        "kept: share of the random differences' energy after applying, 1 - |error|2 / |difference|2"
    )
    return {trial.name: trial for trial in trials}


def _as_json(delta: "Planned", users: int, trial: "Trial | None") -> dict[str, object]:
    fields: dict[str, object] = {
        "name": delta.name,
        "options": delta.options,
        "payload_bytes": delta.payload_bytes,
        "file_bytes": delta.file_bytes,
        "all_users_bytes": users * delta.file_bytes,
    }
    return fields if trial is None else fields | {"measured": asdict(trial)}
