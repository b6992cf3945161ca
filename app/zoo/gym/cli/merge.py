"""`zoo-gym merge`: merges models and fine-tunes of one base."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.gym.cli.options import Files, Json, Offline, Switch, Yes, consent, output_path
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.files import check_new_folder
from zoo.gym.humanize import human_bytes
from zoo.gym.merge.methods import MethodName, settings_of
from zoo.gym.offline import go_offline

if TYPE_CHECKING:
    from zoo.gym.merge.inputs import Input
    from zoo.gym.merge.methods import Settings
    from zoo.gym.merge.soup import Mean
    from zoo.models import Resolved


def merge(
    *sources: str,
    method: MethodName = "linear",
    search: Switch = False,
    data: Files = (),
    out: str | None = None,
    weights: str | None = None,
    base: str | None = None,
    density: float | None = None,
    seed: int | None = None,
    dtype: Literal["f32", "bf16"] = "f32",
    dry_run: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Merges models and fine-tunes of one base into a model folder.

    Args:
        sources: runs, deltas, peft folders and model folders
        method: how; see docs/reference/merge.md
        search: of linear, add sources one by one and keep those with which the held-out loss falls
        data: with --search, held-out examples; by default the rows that the runs held out
        out: the folder to write; by default merged
        weights: one number a source, separated by commas; by default 1 each
        base: the base model's name or folder; by default that of the fine-tunes
        density: with ties, dare_ties and dare_linear the share of each change that is kept
        seed: with dare_ties and dare_linear that of the random choice
        dtype: the type of the written weights; sums are float32
        dry_run: show what would be merged and written
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.merge.inputs import find_inputs
    from zoo.gym.merge.run import merge_models, require_mergekit

    screen, folder = Output(as_json), output_path(out, "merged")
    settings = settings_of(method, len(sources), _numbers(weights), density, seed)
    _check_search(method, weights, data, search=search)
    check_new_folder(folder)
    require_mergekit()
    inputs, model = find_inputs(
        sources,
        base,
        needs_base=settings.method.of_changes,
        offline=offline or dry_run,
        confirm=consent(yes=yes),
    )
    go_offline()
    if dry_run:
        return _planned(inputs, model, settings, folder, dtype, screen)
    chosen, means = list(inputs), list["Mean"]()
    if search:
        chosen, means = _searched(inputs, data, folder, screen)
        settings = settings_of(method, len(chosen))
    least = min((each.loss for each in means), default=None)
    figures = {} if least is None else {"held-out loss, nats per token": least}
    merged = merge_models(chosen, model, settings, folder, dtype, figures)
    for note in merged.notes:
        screen.say(note)
    for name, distance in merged.distances.items():
        screen.answer(f"{distance:.2%} of its weights away from {name}")
    screen.answer(str(merged.folder))
    answer = {
        "folder": str(merged.folder),
        "model": str(merged.folder),
        "method": settings.method.name,
        "sources": [item.name for item in chosen],
        "weights": list(settings.weights),
        "density": settings.density if settings.method.sparse else None,
        "seed": settings.seed if settings.method.random else None,
        "base": None if model is None else model.id,
        "distances": merged.distances,
    }
    screen.result(answer | ({"search": [asdict(each) for each in means]} if search else {}))
    return 0


def _planned(
    inputs: "Sequence[Input]",
    base: "Resolved | None",
    settings: "Settings",
    folder: Path,
    dtype: str,
    screen: Output,
) -> int:
    """Prints what a merge would write, and returns the exit code."""
    from zoo.gym.merge.run import float32_bytes

    size_bytes = float32_bytes(inputs[0]) // (2 if dtype == "bf16" else 1)
    on = "" if base is None else f" on {base.id}"
    names = ", ".join(item.name for item in inputs)
    screen.answer(f"{settings.method.name} of {names}{on}")
    screen.answer(f"about {human_bytes(size_bytes)} in {folder}: nothing was written")
    planned = {"method": settings.method.name, "sources": [item.name for item in inputs]}
    where = {"folder": str(folder), "bytes": size_bytes, "base": None if base is None else base.id}
    screen.result(planned | where)
    return 0


def _check_search(method: str, weights: str | None, data: Sequence[str], *, search: bool) -> None:
    """Refuses what a search does not use, or only a search uses."""
    if search and (method != "linear" or weights is not None):
        other = f"--method {method}" if method != "linear" else "--weights"
        raise InputError(
            f"--search: expected no {other}: it chooses sources for their mean",
            code="cli.bad_value",
        )
    if data and not search:
        raise InputError("--data: has no effect without --search", code="cli.bad_value")


def _searched(
    inputs: "Sequence[Input]", data: Sequence[str], folder: Path, screen: Output
) -> "tuple[list[Input], list[Mean]]":
    """Returns the sources of the greedy soup, printing each figure."""
    from zoo.gym.cli.delta.examples import held_out_examples, sampled
    from zoo.gym.merge.soup import greedy_soup, in_all
    from zoo.gym.train.measuring import Measuring

    asked = [
        held_out_examples(item.tuned.source, data, item.tuned.base, screen)
        for item in inputs
        if data or item.tuned.source.run is not None
    ]
    if len(asked) < len(inputs) or not all(each.held_out for each in asked):
        screen.say("warning: it is not known whether a source was trained on some of these rows")
    common = Measuring(in_all([each.examples for each in asked]))
    rows = sampled(common, inputs[0].tuned.base, None, screen).examples

    def watch(mean: "Mean") -> None:
        verdict = "kept" if mean.kept else "left out"
        screen.answer(f"loss {mean.loss:.4f}  {' + '.join(mean.names)}: {verdict}")

    return greedy_soup(inputs, rows, folder, watch)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--weights: expected numbers separated by commas, got {text!r}", code="cli.bad_value"
        ) from None
