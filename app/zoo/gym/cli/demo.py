"""`zoo-gym demo`: the complete workflow on the built-in model, measured."""

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output

MISSED = 1
"""Exit code if a figure misses its target."""


def demo(*, as_json: Json = False) -> int:
    """Trains, compresses and measures the built-in model; needs no network.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.demo.run import run_demo
    from zoo.models.offline import go_offline

    go_offline()

    out = Output(as_json)
    found = run_demo(out.answer)
    for sentence in found.missed:
        out.say(f"zoo-gym: error: {sentence}")
    rows = [row.as_json() for row in found.rows]
    out.result({"rows": rows, "missed": list(found.missed)})
    return MISSED if found.missed else 0
