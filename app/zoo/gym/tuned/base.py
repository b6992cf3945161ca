"""Finds the base of a fine-tune or a round: as the user says, or by its record."""

from contextlib import suppress
from typing import TYPE_CHECKING

from zoo.gym.delta.reading.remembered import Check, find_base, is_base, remember_base
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models import Resolved, resolve
from zoo.models.resolve import model_of_folder

if TYPE_CHECKING:
    from zoo.models.hub import Confirm


def resolve_base(
    given: str | None,
    recorded: str | None,
    option: str,
    check: Check | None = None,
    *,
    offline: bool = True,
    confirm: "Confirm | None" = None,
) -> Resolved:
    """Returns the base model: the one given by the user, otherwise the one of the fine-tune.

    Args:
        given: the value of `option`, if there was one.
        recorded: the name in a run, an adapter, a delta or a round, see `Source.base`.
        option: the option that specifies the base, for messages.
        check: refuses weights of another base than the recorded one, see `Source.check`; with it,
            a base that was used before is found in its folder.
        offline: never contact the hub.
        confirm: asks for consent to a download, see `zoo.models.resolve`.

    Raises:
        InputError: there is no base.
        NotAvailableError: it is not here; the hint has the option.
    """
    name = recorded if given is None else given
    if name is None or not name.strip():
        raise InputError(
            f"{option}: expected a model's name or folder, got nothing",
            hint=f"{option} zen-nano, or zen-pico, a test model that needs no download",
            code="tuned.no_base_named",
        )
    if given is None and check is not None:
        name = _remembered(name, option, check)
    try:
        base = resolve(name, offline=offline, confirm=confirm)
    except NotAvailableError as error:
        if given is not None or "/" in name:
            raise
        message = f"base model '{name}' was not found: {error.message}"
        hint = f"{error.hint}; or give its folder: " if error.hint else "give its folder: "
        raise NotAvailableError(
            message, hint=f"{hint}{option} FOLDER", code="tuned.no_base"
        ) from None
    if given is not None:
        remember_base(base.folder)
    return base


def _remembered(name: str, option: str, check: Check) -> str:
    """Returns the folder of a base that was used before, or its name if that finds it, or nothing.

    A name of a folder in the current one may be that of another model, so its weights are checked;
    the name of a model is not in doubt.
    """
    with suppress(InputError, NotAvailableError):
        folder = resolve(name, offline=True).folder
        if model_of_folder(folder) is not None or is_base(folder, check):
            return name
    try:
        remembered = find_base(name, check)
    except InputError as error:
        raise InputError(
            error.message, hint=f"give one: {option} FOLDER", code="tuned.ambiguous_base"
        ) from None
    return name if remembered is None else str(remembered)
