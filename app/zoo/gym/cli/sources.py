"""Finds the models that a command names, after consent to a download, and its chat template."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zoo.gym.cli.options import consent
from zoo.gym.cli.output import Output
from zoo.gym.config.foreign import without_effect
from zoo.gym.data.templates import named_template
from zoo.gym.errors import InputError
from zoo.gym.offline import go_offline
from zoo.models import Resolved, resolve

if TYPE_CHECKING:
    from zoo.gym.delta.reading.remembered import Check


def template_of(template: str | None, out: Output) -> str | None:
    """Returns what `--template` names; one of LLaMA-Factory's other names has no effect.

    Raises:
        InputError: it is neither a name nor a file.
    """
    if template is None:
        return None
    if reason := without_effect("template", template):
        out.say(f"without effect: --template {template}: {reason}")
        return None
    try:
        return named_template(template)
    except InputError as error:
        raise InputError(f"--template: {error.message}", code=error.code) from None


def resolve_base(
    name: str | None,
    recorded: str | None,
    option: str,
    check: "Check | None" = None,
    *,
    yes: bool,
    offline: bool,
) -> Resolved:
    """Finds a base as `zoo.gym.tuned.base` does, and as `resolve_model` finds a model.

    Raises:
        GymError: see `zoo.gym.tuned.base.resolve_base`.
    """
    from zoo.gym.tuned import base as bases

    confirm = consent(yes=yes)
    base = bases.resolve_base(name, recorded, option, check, offline=offline, confirm=confirm)
    go_offline()
    return base


def resolve_model(name: str, *, yes: bool, offline: bool) -> Resolved:
    """Finds a model, downloading it after consent; then this process no longer uses the hub.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    return resolve_models([name], yes=yes, offline=offline)[0]


def resolve_models(names: Iterable[str], *, yes: bool, offline: bool) -> list[Resolved]:
    """Finds several models as `resolve_model` does; the hub is used for each.

    Raises:
        GymError: see `zoo.models.resolve`.
    """
    models = [resolve(name, offline=offline, confirm=consent(yes=yes)) for name in names]
    go_offline()
    return models
