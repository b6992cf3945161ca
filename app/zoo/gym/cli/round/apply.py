"""`zoo-gym round apply, undo`: a verified result becomes the base of the next run, or a library."""

from functools import partial

from zoo.gym.cli.options import Json, Offline, Threads, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.round.options import Positional, opened_round, refuse_without_effect, round_base
from zoo.gym.errors import InputError, NotAvailableError


def apply(
    round_: Positional = None,
    /,
    *,
    base: str | None = None,
    name: str | None = None,
    threads: Threads = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Verifies a round's result, and writes base plus result as a model to train on.

    The result of a round of lessons becomes a new version of a library.

    Args:
        round_: its folder, name or id; by default the only one with a result
        name: of the library, in a round of lessons, needed to put the result into the place of one
            that is not from this round; by default the round's
        base: the base model's name or folder; by default the round's
        threads: how many threads; by default all
        yes: download the base without asking
        offline: never contact the hub
    """
    from zoo.gym.rounds.kind import Request, kind_of

    out, opened = Output(as_json), opened_round(round_, published=True)
    kind, typed = kind_of(opened.manifest), {"base": base, "threads": threads, "name": name}
    refuse_without_effect(kind, "apply", typed | {"yes": yes, "offline": offline})
    its_base = partial(round_base, opened, base, yes=yes, offline=offline)
    given = Request("", its_base, library=name, threads=threads)
    out.result(kind.apply(opened, given, out))
    return 0


def undo(base: str | None = None, /, *, as_json: Json = False) -> int:
    """Goes back to the result that was applied before the newest one; its model stays on disk.

    Args:
        base: the base model's name or folder; by default that of the newest result
    """
    from zoo.gym.rounds.compute.applying import applied_results, newest_result, undo_result
    from zoo.gym.rounds.lessons.applying import refuse_library
    from zoo.models import resolve

    out = Output(as_json)
    try:
        folder = None if base is None else resolve(base, offline=True).folder
    except (InputError, NotAvailableError):
        refuse_library(str(base))
        raise
    undone = undo_result(folder)
    now = newest_result(undone.base)
    out.answer(f"result {undone.digest[:12]} no longer counts; its model stays: {undone.file}")
    if now:
        out.answer(f"the newest of this base is {now.digest[:12]}: {now.file}")
    else:
        out.answer("no other was applied to this base")
    if others := [one for one in applied_results() if one.base != undone.base]:
        last = others[-1]
        out.answer(f"the newest of another base, {last.base}, is {last.digest[:12]}: {last.file}")
    file, digest = (str(now.file), now.digest) if now else (None, None)
    out.result({"file": file, "digest": digest, "previous": undone.digest})
    return 0
