"""`zoo-gym runs retry`: a failed run again, as a new one."""

from typing import Any, cast

from zoo.gym import jobs
from zoo.gym.cli.options import Json, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.train import load, train_as
from zoo.gym.config.foreign import ALIASES
from zoo.gym.config.items import value_text
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object
from zoo.gym.jobs import Run
from zoo.gym.jobs.state import LIVE
from zoo.gym.train.planning.smaller import OUT_OF_MEMORY, smaller_steps


def retry(
    run: str, *settings: str, detach: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Starts a run again as a new one, with other settings.

    Without settings, one that ran out of memory learns the same in smaller steps: a row at a time,
    accumulated to the same steps, and with gradient checkpointing. The run itself stays as it is.

    Args:
        run: the run's id or name, or last
        settings: KEY=VALUE, in place of the run's own
        detach: return as soon as the run has started
        yes: download without asking
        as_json: print one JSON object as stdout's last line
    """
    screen, source = Output(as_json), jobs.open_run(run)
    status = jobs.reconcile(source)
    if status.state in LIVE:
        raise InputError(
            f"{source.id}: expected a run that has ended, got one that is {status.state}",
            hint=f"zoo-gym runs stop {source.id}",
            code="cli.run_is_live",
        )
    if others := [
        word for word in settings if "=" not in word or not word.partition("=")[0].isidentifier()
    ]:
        raise InputError(
            f"{others[0]}: expected a setting KEY=VALUE, got another word",
            hint="zoo-gym train starts a run with other data",
            code="cli.bad_value",
        )
    changes = list(settings)
    if not changes and status.code in OUT_OF_MEMORY:
        smaller = smaller_steps(settings_of(source))
        changes = [f"{key}={value_text(value)}" for key, value in smaller.items()]
    if not changes:
        raise InputError(
            f"{source.id}: expected settings to change, got none",
            hint=f"zoo-gym runs resume {source.id} continues it; KEY=VALUE changes a setting: a "
            "smaller cutoff_len or finetuning_type=qlora need less memory, and learn otherwise",
            code="cli.missing_argument",
        )
    screen.say(f"{source.id} again, with {' '.join(changes)}")
    if settings:
        loaded = load(tuple(changes), (), _given(source, changes))
    else:  # what the run chose stays, so that it learns the same
        loaded = load((str(source.config_file), *changes), (), {})
    return train_as(loaded, screen, yes=yes, detach=detach, env={"retry_of": source.id})


def _given(run: Run, changes: list[str]) -> dict[str, Any]:
    """Returns the settings that the user gave a run, and not those that it chose for them."""
    stored_env = cast("dict[str, Any]", read_json_object(run.env_file) or {})
    origins = stored_env.get("origins", {})
    names = (word.partition("=")[0] for word in changes)
    changed = {ALIASES.get(name, name) for name in names}
    stored, _ = jobs.stored_yaml(run)
    return {
        key: value
        for key, value in stored.items()
        if (key == "date" or origins.get(key) != "default") and key not in changed
    }


def settings_of(run: Run) -> dict[str, Any]:
    """Returns the settings of a run, and what it chose itself as far as its events say so."""
    settings, _ = jobs.stored_yaml(run)
    known: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
    for event in jobs.tail_events(run.events.path)[0]:
        if event["kind"] == "plan":
            chosen = {each["key"]: each["value"] for each in event.get("choices", [])}
            known = chosen | known
    return known
