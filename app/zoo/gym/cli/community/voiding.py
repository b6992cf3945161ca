"""`zoo-gym round void`, and the question before a round of which no result can come is void."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, TypeVar

from cyclopts import Parameter

from zoo.gym.cli.community.opened import opened_round
from zoo.gym.cli.options import Json, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.errors import NotAvailableError

Result = TypeVar("Result")


def or_void(publish: Callable[..., Result], *, yes: bool) -> Result:
    """Publishes a result; if none can come of the round, makes it void after a yes.

    Args:
        publish: publishes; `void=True` lets it make the round void.
        yes: it may, without asking.

    Raises:
        GymError: the round is void.
        InputError: no result can come of it, and the user does not agree.
    """
    from zoo.gym.rounds.compute.collect import NoResultError

    try:
        return publish(void=yes)
    except NoResultError as error:
        asked = f"{error.message}: make the round void for good? [y/N] "
        if not confirmed(asked, yes=False):
            raise
    return publish(void=True)


def void(
    round_: Annotated[str | None, Parameter(name="ROUND")] = None,
    /,
    *,
    because: Annotated[str, Parameter(name="--because", metavar="TEXT")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Makes your round void for good, whatever it waits for: it will have no result.

    The log keeps the reason. The key that opens the contributions of a private round is deleted.

    Args:
        round_: its folder, address, name or id; by default the only open one seen here
        because: the reason, in one line, which everybody reads
        yes: make it void without asking
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.rounds.life.places import remember_place
    from zoo.gym.rounds.life.writing import void_round
    from zoo.gym.signing import load_key

    out, opened, key = Output(as_json), opened_round(round_), load_key()
    name = opened.manifest.name
    if opened.state.closed:
        raise NotAvailableError(
            f"round {name}: expected one that has not ended, got phase {opened.state.phase}"
        )
    if not confirmed(f"round {name}: make it void for good? [y/N] ", yes=yes):
        raise NotAvailableError(
            f"round {name}: expected your consent, because it will have no result",
            hint="agree with --yes",
        )
    state = void_round(opened.storage, key, because)
    remember_place(replace(opened, state=state))
    out.answer(f"round {name} is void: {because}")
    if opened.manifest.privacy is not None:
        out.answer("the key that opened its contributions is deleted from this machine")
    out.result({"round": state.id, "phase": state.phase.value, "reason": state.reason})
    return 0
