"""`zoo-gym demo`: the complete workflow on the built-in model, then on one that talks."""

from zoo.gym.cli.options import Json, Yes, consent
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError, NotAvailableError

MISSED = 1
"""Exit code if a figure misses its target."""


def demo(*, name: str = "Rowan", yes: Yes = False, as_json: Json = False) -> int:
    """Trains, compresses and measures the built-in model, then teaches smollm2 its name.

    The first part needs no network. The second needs smollm2, which is downloaded after consent.

    Args:
        name: what smollm2 is to be called
        yes: download smollm2 without a question
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.demo.persona import MODEL, lines_of, missed_names, teach_name
    from zoo.gym.demo.run import demo_folder, run_demo
    from zoo.gym.offline import go_offline
    from zoo.models import resolve

    if not name.strip() or len(name) > 40 or not name.isprintable():
        raise InputError(
            f"--name: expected a name of at most 40 characters, got {name!r:.60}",
            code="cli.bad_value",
        )
    out = Output(as_json)
    base, absent = None, None
    try:
        base = resolve(MODEL, confirm=consent(yes=yes))
    except NotAvailableError as error:  # a damaged download is an error of the whole command
        absent = error
    go_offline()  # before any library that would look at a hub is imported
    outcome = run_demo(out.answer)
    rows = [row.as_json() for row in outcome.rows]
    missed, persona = list(outcome.missed), None
    if absent is not None:
        out.say(f"the demo ends here, without its second part: {absent.message}")
        if absent.hint:
            out.say(f"hint: {absent.hint}")
    if base is not None:
        persona = teach_name(base, demo_folder(), name.strip(), out.answer)
        missed += missed_names(persona)
        for line in lines_of(persona):
            out.answer(line)
    for line in outcome.closing:
        out.answer(line)
    for sentence in missed:
        out.say(f"zoo-gym: error: {sentence}")
    second = {} if persona is None else {"persona": persona.as_json()}
    out.result({"rows": rows, **second, "missed": missed})
    return MISSED if missed else 0
