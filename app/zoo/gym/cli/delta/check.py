"""`zoo-gym delta check`: checks a file, and measures it again."""

from typing import TYPE_CHECKING

from zoo.gym.cli.delta.examples import check_rows, held_out_examples, quality_of, sampled
from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Files, Json, Offline, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_base
from zoo.gym.config.items import existing
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models import Resolved

if TYPE_CHECKING:
    from zoo.gym.tuned.source import Source


def check(
    file: str,
    /,
    *,
    base: str | None = None,
    data: Files = (),
    rows: int | None = None,
    control: str | None = None,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Checks a delta file: format, digest, identity, finite values, and measures it again.

    Args:
        file: the delta file
        base: the base model's name or folder; by default the one recorded in the delta, if it is
            here
        data: held-out examples to measure on
        rows: the maximum number of them; by default as many as create uses
        control: another user's delta of this base; its loss on the same rows is reported, too
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.delta import check_delta
    from zoo.gym.train.measuring import Measuring
    from zoo.gym.tuned.source import Source

    screen, path = Output(as_json), existing(file, "a delta file")
    delta = Source("delta", path)
    check_rows(rows, data)
    if base is None and not data:
        model = _named_base(delta, screen)
    else:
        model = resolve_base(base, delta.base, "--base", delta.check, yes=yes, offline=offline)
    measuring = Measuring()
    if model:
        measuring = held_out_examples(delta, data, model.folder, screen)
        measuring = sampled(measuring, model.folder, rows, screen)
    checks = check_delta(
        path,
        base=model.folder if model else None,
        base_id=model.id if model else None,
        quality=quality_of(measuring, control),
    )
    words = {True: "ok", False: "FAILED", None: "not made"}
    for verdict in checks:
        screen.answer(f"{verdict.name:<9} {words[verdict.ok]:<9} {verdict.detail}")
    broken = [verdict for verdict in checks if verdict.ok is False]
    if measuring.held_out is False and not broken:
        screen.say(
            "warning: these files are what it was trained on: most of their rows are not held out"
        )
    answer = {"checks": [verdict.as_json() for verdict in checks], "passed": not broken}
    if broken:
        message = f"check {broken[0].name} failed: {broken[0].detail}"
        return fail(screen, answer, InputError(message, code="cli.check_failed"))
    screen.result(answer)
    return 0


def _named_base(delta: "Source", screen: Output) -> Resolved | None:
    """Returns the base that a delta names, if it is on this machine, and says where it is not."""
    try:
        named, check = delta.base, delta.check
    except InputError:
        return None  # the checks report what is wrong with the file
    try:
        return resolve_base(None, named, "--base", check, yes=False, offline=True)
    except (InputError, NotAvailableError):
        screen.say(f"base '{named}' is not on this machine: give its folder with --base")
        return None
