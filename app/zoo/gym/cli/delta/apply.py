"""`zoo-gym delta apply` and `info`: rebuilds a fine-tune, and shows what a file has."""

from typing import Literal

from zoo.gym.cli.options import Json, Offline, Switch, Yes, output_path
from zoo.gym.cli.output import Output
from zoo.gym.cli.progress import show_pass
from zoo.gym.cli.sources import resolve_base
from zoo.gym.config.items import existing
from zoo.gym.files import check_new_folder


def apply(
    file: str,
    /,
    *,
    base: str | None = None,
    out: str | None = None,
    dtype: Literal["f32", "bf16"] = "f32",
    force: Switch = False,
    dry_run: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Rebuilds the tuned model from its base and a delta, as a folder that transformers loads.

    Args:
        file: the delta file
        base: the base model's name or folder; by default the one recorded in the delta
        out: the folder to write; by default in this folder, named after the file
        dtype: the type of the written weights; bf16 rounds, and the loss is reported
        force: accept a base whose config or unchanged tensors differ from the recorded one's; how
            is reported
        dry_run: show what would be rebuilt, and where it would be written
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.delta import apply_delta
    from zoo.gym.tuned.source import Source

    screen, path = Output(as_json), existing(file, "a delta file")
    name = path.name.removesuffix(".safetensors").removesuffix(".delta")
    folder = output_path(out, f"{name}-model")
    check_new_folder(folder)
    delta = Source("delta", path)
    offline = offline or dry_run
    model = resolve_base(base, delta.base, "--base", delta.check, yes=yes, offline=offline)
    if dry_run:
        screen.answer(f"{path} on {model.label}, as {dtype}, to {folder}: nothing was written")
        screen.result({"folder": str(folder), "base": model.id, "revision": model.revision})
        return 0
    report = apply_delta(
        path,
        base=model.folder,
        out=folder,
        dtype=dtype,
        base_id=model.id,
        force=force,
        watch=show_pass(screen),
    )
    if report.other_base is not None:
        screen.say(f"warning: this is another base: its {report.other_base}")
    if report.rounding_loss is not None:
        screen.say(f"rounding to bf16 loses {report.rounding_loss:.1%} of the delta")
    screen.answer(str(report.folder))
    screen.result(report.as_json())
    return 0


def info(file: str, /, *, as_json: Json = False) -> int:
    """Shows the header of a delta file.

    Args:
        file: the delta file
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym import delta

    screen = Output(as_json)
    delta_file = delta.load_delta(existing(file, "a delta file"))
    screen.answer(delta.as_text(delta_file))
    screen.result(delta.as_json(delta_file))
    return 0
