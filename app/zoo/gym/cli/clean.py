"""`zoo-gym runs clean` and `zoo-gym clean`: what can be deleted, with sizes, and its deletion."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym import jobs
from zoo.gym.cli.options import Json, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted, human_bytes

if TYPE_CHECKING:
    from zoo.gym.doctor.written import Written

DryRun = Annotated[Switch, Parameter(name="--dry-run")]

Models = Annotated[
    tuple[str, ...],
    Parameter(name="--model", metavar="MODEL", negative=(), show_default=False),
]


def clean(*, dry_run: DryRun = False, yes: Yes = False, as_json: Json = False) -> int:
    """Deletes old checkpoints of ended runs, temporary files, and answers of evaluations.

    It lists them with their sizes, and asks before it deletes anything. Results, deltas, figures,
    and the checkpoint that a resume continues from stay; a live run is left alone.

    Args:
        dry_run: only list them
        yes: delete without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    out, files = Output(as_json), [*jobs.deletable_files(), *_answers()]
    for file in files:
        out.answer(f"{human_bytes(file.size_bytes):>10}  {file.kind:<10}  {file.path}")
    if not files:
        out.answer("nothing to delete")
    deleted = [] if dry_run or not files else _deleted(files, yes=yes)
    if deleted:
        out.answer(f"{_counted(deleted)} deleted, {human_bytes(_total(deleted))} freed")
    listed = [
        {"path": str(file.path), "kind": file.kind, "bytes": file.size_bytes} for file in files
    ]
    out.result({"files": listed, "deleted": len(deleted), "freed_bytes": _total(deleted)})
    return 0


def _answers() -> Iterator[jobs.Deletable]:
    """Yields the answers of evaluations whose figures are stored."""
    from zoo.gym.evaluate.stored import folder_of, measured_answers

    for run in (None, *jobs.ended_runs()):
        for path in measured_answers(folder_of(run)):
            yield jobs.deletable_of(path, jobs.ANSWERS, run)


def _deleted(files: list[jobs.Deletable], *, yes: bool) -> list[jobs.Deletable]:
    question = f"Permanently delete {_counted(files)} ({human_bytes(_total(files))})? [y/N] "
    _confirm(question, "zoo-gym runs clean", yes=yes)
    return jobs.delete(files)


def _counted(files: list[jobs.Deletable]) -> str:
    nouns = {"checkpoint": "checkpoint", "temporary": "temporary file", "answers": "answer file"}
    counts = Counter(file.kind for file in files)
    return ", ".join(counted(count, nouns[kind]) for kind, count in counts.items())


def clean_all(
    *, model: Models = (), dry_run: Switch = False, yes: Yes = False, as_json: Json = False
) -> int:
    """Deletes all that zoo-gym wrote on this machine: runs, results, keys, settings, caches.

    It lists them with their sizes, and asks first. Files of others in its folders stay, and so do
    models in the cache that other programs share. To keep results, see `runs clean`.

    Args:
        model: also delete this model from the shared cache; may be repeated
        dry_run: only list them
        yes: delete without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.doctor import written

    out, named = Output(as_json), [written.cached_model(name) for name in model]
    files = [*written.written(), *{file.path: file for file in named}.values()]
    parts = [
        (part, list(of))
        for part, of in groupby(sorted(files, key=attrgetter("part")), key=attrgetter("part"))
    ]
    for part, of in parts:
        names = ", ".join(str(file.path) for file in of)
        out.answer(f"{human_bytes(_total(of)):>10}  {part:<20}  {names}")
    if not files:
        out.answer("nothing to delete")
    cached = [each for each in written.cached_models() if each not in named]
    for each in cached:
        out.say(
            f"{human_bytes(each.size_bytes):>10}  stays: a model in the cache that other "
            f"programs share  {each.path}"
        )
    for path in written.foreign_files():
        out.say(f"            stays: not written by zoo-gym  {path}")
    if files and not dry_run:
        written.refuse_live()
        question = f"Permanently delete all of this ({human_bytes(_total(files))})? [y/N] "
        _confirm(question, "zoo-gym clean", yes=yes)
        written.delete(files)
        out.answer(
            f"{human_bytes(_total(files))} freed; to remove the program: pip uninstall zoo-gym"
        )
    deleted = files if not dry_run else []
    out.result(
        {
            "files": [
                {"path": str(file.path), "part": file.part, "bytes": file.size_bytes}
                for file in files
            ],
            "kept": [{"path": str(each.path), "bytes": each.size_bytes} for each in cached],
            "others": [str(path) for path in written.foreign_files()],
            "deleted": len(deleted),
            "freed_bytes": _total(deleted),
        }
    )
    return 0


def _confirm(question: str, command: str, *, yes: bool) -> None:
    """Asks whether to delete.

    Raises:
        InputError: the answer is no.
    """
    if not confirmed(question, yes=yes):
        raise InputError(
            "nothing was deleted: expected a confirmation",
            hint=f"delete without a confirmation: {command} --yes; only list: --dry-run",
            code="cli.not_confirmed",
        )


def _total(files: "Iterable[Written | jobs.Deletable]") -> int:
    return sum(file.size_bytes for file in files)
