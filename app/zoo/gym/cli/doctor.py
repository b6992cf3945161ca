"""`zoo-gym doctor`: what is installed and which devices can train; nothing is sent anywhere."""

import platform

from zoo.gym.cli.options import Json
from zoo.gym.cli.output import Output
from zoo.gym.cli.versions import versions


def doctor(*, as_json: Json = False) -> int:
    """Shows versions and which devices can train, and why.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    from zoo.backends.detect import detect
    from zoo.models.offline import go_offline

    go_offline()

    out, found = Output(as_json), detect()
    system = {"python": platform.python_version(), "platform": platform.platform()}
    for name, text in (system | versions()).items():
        out.answer(f"{name:<16} {text}")
    out.answer(f"device {found.name} is used: {found.reason}")
    for name, reason in found.others:
        out.answer(f"device {name} is not: {reason}")
    out.answer("no telemetry, no update check; the network is used after a yes only")
    devices = [{"name": found.name, "used": True, "reason": found.reason}] + [
        {"name": name, "used": False, "reason": reason} for name, reason in found.others
    ]
    out.result(system | {"versions": versions(), "devices": devices})
    return 0
