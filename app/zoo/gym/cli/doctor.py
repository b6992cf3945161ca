"""`zoo-gym doctor`: what this machine has, what it can do, and how to install the rest."""

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.versions import versions

FAILED = 1
"""Exit code if the self-test failed."""


def doctor(*, as_json: Json = False) -> int:
    """Tests this machine with zen-pico and shows what it has, what fits and what is missing.

    Works offline; the report contains no folder names or tokens of yours, so you can share it.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym import doctor as examination
    from zoo.gym.offline import go_offline

    go_offline()
    out, installed = Output(as_json), versions()
    report = examination.examine(out.progress)
    for line in examination.as_lines(report, installed):
        out.answer(line)
    out.result(examination.as_json(report, installed))
    return 0 if report.ok else FAILED
