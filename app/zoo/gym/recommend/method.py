"""Chooses the method for a user's files, and looks at the rows that it would learn from."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.recommend.rows import DataFile, likely_want
from zoo.gym.recommend.rules import EXPERIENCE, LEARNED_WHOLE, USES, Case, Rule, Use, method_for
from zoo.gym.recommend.rules import rules_of as rules
from zoo.gym.recommend.settings import config_of

if TYPE_CHECKING:
    from zoo.gym.data import Inspection
    from zoo.models import Resolved


@dataclass(frozen=True)
class Chosen:
    """The method for files.

    Attributes:
        files: those that the method learns from.
        case: what the other rules look at.
        tokens: of the rows; None if the model's tokenizer is not on this machine.
        notes: what is left out, in sentences.
    """

    files: tuple[Path, ...]
    case: Case
    rule: Rule
    tokens: int | None
    notes: tuple[str, ...]


def choose(files: Sequence[DataFile], want: str | None, base: "Resolved | None") -> Chosen:
    """Returns the method for what the user wants, by default for what most rows are made for.

    Args:
        files: what they contain.
        want: a word of `Want`.
        base: the model, if it is on this machine.

    Raises:
        InputError: no method for that learns from such rows.
    """
    uses: Counter[Use] = Counter()
    for file in files:
        uses.update(file.uses)
    aim = want or likely_want(uses)
    found = method_for(Case(aim, uses))
    if found is None:
        raise _no_method(files, uses, aim)
    rule, rows = found
    used = [file for file in files if any(file.uses[use] for use in rule.uses)]
    own_uses: dict[Use, int] = {use: uses[use] for use in rule.uses if uses[use]}
    case = Case(aim, own_uses, rule.method, rows)
    notes = tuple(_left_out(files, used, rule, rows))
    paths = tuple(file.path for file in used)
    if base is None or rule.method == EXPERIENCE:
        return Chosen(paths, case, rule, None, notes)
    seen = _inspected(paths, rule, base)
    return Chosen(paths, _with_lengths(case, seen, base), rule, seen.tokens.total, notes)


def _no_method(files: Sequence[DataFile], uses: Counter[Use], want: str) -> InputError:
    if not uses:
        problem = next((file.problem for file in files if file.problem), "")
        return InputError(problem or "expected rows, got none", code="recommend.no_row")
    needed: list[Use] = [use for rule in rules("method") if want in rule.wants for use in rule.uses]
    got = ", ".join(USES[use] for use, count in uses.items() if count)
    return InputError(
        f"--want {want}: expected {' or '.join(USES[use] for use in needed)}, got {got}",
        hint=f"such rows are for --want {likely_want(uses)}; docs/reference/data.md has the keys "
        "of each kind of rows",
        code="recommend.wrong_rows",
    )


def _left_out(
    files: Sequence[DataFile], used: Sequence[DataFile], rule: Rule, rows: int
) -> Iterator[str]:
    """Yields the files and rows that are not learned, and how much was looked at."""
    for file in files:
        if file not in used:
            kinds = ", ".join(USES[use] for use in file.uses) or f"no usable row: {file.problem}"
            yield f"{file.path} is left out: {rule.method} does not learn from it ({kinds})"
        if file.more:
            yield f"{file.path}: only its first {file.rows} rows were looked at"
    total = sum(file.rows for file in used)
    if rows < total:
        yield f"{rows} of {counted(total, 'row')} can be used: {rule.method} leaves out the others"


def _inspected(paths: Sequence[Path], rule: Rule, base: "Resolved") -> "Inspection":
    """Returns what `zoo-gym data inspect` finds for the method."""
    from zoo.gym.config.stages import load_method
    from zoo.gym.data import inspect_dataset
    from zoo.gym.train.rows import encode_options
    from zoo.gym.train.run_folder.pinned import pinned

    config = pinned(config_of(rule, base.name, paths, {}), base)
    options = encode_options(config, base.folder)
    return inspect_dataset(paths, base.folder, options, load_method(rule.method).reads)


def _with_lengths(case: Case, seen: "Inspection", base: "Resolved") -> Case:
    from zoo.models.folder import model_positions

    is_cut = case.method in LEARNED_WHOLE
    return replace(
        case,
        rows=seen.rows,
        longest_tokens=seen.tokens.longest,
        context_tokens=(model_positions(base.folder) or 0) if is_cut else 0,
        duplicates=seen.duplicates,
    )
