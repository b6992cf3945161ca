"""`zoo-gym variants create` and `import`: makes the variant of a user, by training or of a file."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from zoo.gym.cli.ending import finish
from zoo.gym.cli.flags import with_setting_flags
from zoo.gym.cli.options import Json, Offline, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_base
from zoo.gym.cli.train import Config, load, train_as
from zoo.gym.cli.variants.manage import facts
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.humanize import human_bytes
from zoo.gym.jobs import Run, Status
from zoo.gym.jobs.run import VARIANT_KEY
from zoo.gym.variants import store

if TYPE_CHECKING:
    from zoo.gym.variants.register import VariantSpec
    from zoo.gym.variants.store import Stored

User = Annotated[str | None, Parameter(name="--user", metavar="NAME")]
FewBits: TypeAlias = Literal[1, 2, 4, 8]
Bits = Annotated[FewBits | None, Parameter(name="--bits")]


@with_setting_flags
def create(
    *items: str,
    user: User = None,
    run: str | None = None,
    delta: str | None = None,
    bits: Bits = None,
    safety_threshold: float | None = None,
    replace: Switch = False,
    config: Config = (),
    yes: Yes = False,
    detach: Switch = False,
    as_json: Json = False,
    **settings: object,
) -> int:
    """Trains a variant of a base for a user, as `train` does, and stores its low-rank delta.

    Args:
        items: a file or folder of examples, a .yaml file of settings or a recipe, or KEY=VALUE
        user: the name of the user: 1 to 64 of a-z, 0-9, '.', '_', '-'
        run: store the result of this run instead of training one
        delta: store this delta instead
        bits: bits per value of the factors: 2, or with 1 trained so from the start
        safety_threshold: the share of the base's refusals of harmful prompts that the variant must
            keep, 0 to 1; otherwise it is not stored
        replace: replace the variant of that name
        config: a YAML file of settings, the same as an item
        yes: download without asking
        detach: return as soon as the run has started
        as_json: print one JSON object as stdout's last line
        **settings: every key of a settings file
    """
    out, name = Output(as_json), _user(user)
    stated = {key: value for key, value in settings.items() if value is not None}
    if run is None and delta is None:
        spec = _spec(name, bits, safety_threshold, replace=replace)
        if bits == 1:  # few bits lose least where they are trained
            settings.setdefault("delta_bits", 1)
        return _train(items, config, settings, spec, out, yes=yes, detach=detach)
    base = stated.pop("model_name_or_path", None) if delta is not None else None
    assert base is None or isinstance(base, str)
    idle = {"ITEM": items, "config": config, "detach": detach, **stated}
    if delta is not None:
        idle |= {"run": run, "bits": bits, "safety_threshold": safety_threshold}
    _refuse_idle(idle, "run" if delta is None else "delta")
    if delta is not None:
        return _store_file(delta, base, name, out, replace=replace, yes=yes, offline=False)
    assert run is not None
    return _store_run(run, _spec(name, bits, safety_threshold, replace=replace), out)


def import_file(
    file: str,
    /,
    *,
    user: User = None,
    base_model: Annotated[str | None, Parameter(name=["--base-model", "--model"])] = None,
    replace: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Stores a delta file as the variant of a user.

    Args:
        file: a low-rank delta
        user: the name of the user: 1 to 64 of a-z, 0-9, '.', '_', '-'
        base_model: its base's name or folder; by default the one that the delta records
        replace: replace the variant of that name
        yes: download the base without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    name, out = _user(user), Output(as_json)
    return _store_file(file, base_model, name, out, replace=replace, yes=yes, offline=offline)


def _user(name: str | None) -> str:
    if name is None:
        raise InputError(
            "--user: expected the name of the user, got nothing", code="cli.missing_argument"
        )
    store.check_name(name)
    return name


def _spec(
    user: str, bits: FewBits | None, safety_threshold: float | None, *, replace: bool
) -> "VariantSpec":
    from zoo.gym.delta.safety_gate import threshold_of
    from zoo.gym.variants.register import VariantSpec

    threshold = None if safety_threshold is None else threshold_of(safety_threshold)
    coding = DeltaConfig(bits=bits)
    return VariantSpec(user=user, coding=coding, safety_threshold=threshold, replace=replace)


def _refuse_idle(idle: Mapping[str, object], instead: str) -> None:
    """Refuses what would be about a training that is not made.

    Raises:
        InputError: one is given.
    """
    for key, value in idle.items():
        if value:
            what = key if key == "ITEM" else f"--{key}"
            raise InputError(
                f"{what}: has no effect with --{instead}, which is there already",
                hint=f"leave out {what}, or --{instead} to train",
                code="cli.bad_value",
            )


def _train(
    items: tuple[str, ...],
    config: tuple[str, ...],
    settings: dict[str, object],
    spec: "VariantSpec",
    out: Output,
    *,
    yes: bool,
    detach: bool,
) -> int:
    from zoo.gym.variants.register import check_settings
    from zoo.models import resolve

    loaded = load(items, config, settings)
    check_settings(loaded.config)
    try:
        base = resolve(loaded.config.model_name_or_path, offline=True)
    except NotAvailableError:
        pass  # it is downloaded, or refused; there are no variants of it
    else:
        store.require_free(store.stored_of(base.folder, spec.user), replace=spec.replace)
    env = {VARIANT_KEY: spec.model_dump(mode="json")}
    return train_as(loaded, out, yes=yes, detach=detach, env=env, end=_finish)


def _finish(run: Run, status: Status, out: Output) -> int:
    """Reports how the training of a variant ended and returns the exit code."""
    if status.state != "done":
        return finish(run, status, out)
    stored = store.find(str((status.metrics or {})["variant"]))
    return _report(stored, out, run.id)


def _store_run(run: str, spec: "VariantSpec", out: Output) -> int:
    from zoo.gym.tuned.source import resolve_tuned
    from zoo.gym.variants.register import add_run

    source = resolve_tuned(run)
    if source.run is None:
        raise InputError(f"--run: expected a run, got {run!r}", code="cli.bad_value")
    return _report(add_run(source.run, spec).stored, out, source.run.id)


def _store_file(
    file: str, base: str | None, user: str, out: Output, *, replace: bool, yes: bool, offline: bool
) -> int:
    from zoo.gym.tuned.source import Source

    source = Source("delta", existing(file, "a delta file"))
    model = resolve_base(base, source.base, "--base-model", source.check, yes=yes, offline=offline)
    return _report(store.put(source.path, model, user, replace=replace), out, None)


def _report(stored: "Stored", out: Output, run: str | None) -> int:
    from zoo.gym.delta import as_text, load_delta

    delta = load_delta(stored.file)
    out.say(as_text(delta))
    out.answer(f"{stored.id}  {human_bytes(delta.file_bytes)}")
    base = shlex.quote(_model_of(stored))
    out.say(f"next: zoo-gym serve --model {base}    answers programs, as the model {stored.id}")
    out.result(facts(stored, delta.file_bytes) | {"run": run})
    return 0


def _model_of(stored: "Stored") -> str:
    """Returns what `--model` takes for the base, if the store's name of it is that."""
    from zoo.models import resolve

    try:
        resolve(stored.base, offline=True)
    except (InputError, NotAvailableError):
        return "MODEL"
    return stored.base
