"""Sampled answers as rows to learn from, for one or several steps, and their file in a checkpoint.

Legend: N groups, G answers of each, T positions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.data.batches import GROUP_TOKENS, collate, cut_groups, micro_batches
from zoo.gym.data.units import Example, Unit, rows_of
from zoo.gym.objectives.constants import WINDOW_ROWS, WINDOW_SELECTED, WINDOW_TOKENS, WINDOW_UNITS
from zoo.gym.objectives.grpo import ADVANTAGES, SELECTED
from zoo.gym.objectives.ppo import RETURNS, TOKEN_ADVANTAGES
from zoo.gym.train.method import Window
from zoo.gym.train.parallel.pace import scored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Scorer, Stat
    from zoo.backends.ranks import Ranks
    from zoo.gym.train.rollouts import Answer


PULLS = (ADVANTAGES, TOKEN_ADVANTAGES, RETURNS)
"""Extras of which one must not be zero: the values of a new head are zero, like the returns of
answers that earn nothing, and the divergence from the reference begins at zero."""


@dataclass(frozen=True)
class Buffer:
    """Rows of sampled answers.

    Attributes:
        units: a unit for each group that has something to learn.
        tokens: learned tokens of all answers with a reward, those of groups left out included.
        rows: the number of these answers.
        metrics: what was measured on them.
        notes: warnings to emit.
        constants: further constants of the window.
        temperature: the temperature that the answers were sampled at; their log-probabilities and
            entropies are those at this temperature.
    """

    units: tuple[Unit, ...]
    tokens: int
    rows: int
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    temperature: float = 1.0

    def part(self, places: Sequence[int]) -> "Buffer":
        """Returns the groups at these places, with the counts of their rows alone."""
        units = tuple(self.units[index] for index in places)
        rows = rows_of(units)
        tokens = sum(int(row.mask.sum()) for row in rows)
        return replace(self, units=units, tokens=tokens, rows=len(rows))

    def with_extras(self, name: str, values: "Sequence[NDArray[Any]]") -> "Buffer":
        """Returns the rows with one more array among the extras of each, in order."""
        arrays = iter(values)
        units = tuple(
            Unit(
                tuple(replace(row, extras={**row.extras, name: next(arrays)}) for row in unit.rows)
            )
            for unit in self.units
        )
        return replace(self, units=units)

    def scored(
        self, scorer: "Scorer", stat: "Stat", max_tokens: int, ranks: "Ranks"
    ) -> "list[NDArray[Any]]":
        """Returns a statistic of each row's tokens, float32 [T], zero where nothing is learned.

        Args:
            scorer: the model.
            stat: the statistic.
            max_tokens: the maximum number of tokens in a batch.
            ranks: the processes that share the work.
        """
        parts = list(micro_batches(self._cut(), max_batch_tokens=max_tokens))
        needs = frozenset({stat})

        def score(index: int) -> "dict[Stat, NDArray[Any]]":
            return scorer.score(collate(parts[index], temperature=self.temperature), needs)

        local = scored(scorer, ranks, len(parts), score, needs)
        by_index: dict[int, NDArray[Any]] = {}
        for part, scores in zip(parts, ranks.join(local), strict=True):
            for row, row_values in zip(rows_of(part), scores[stat], strict=True):
                by_index[id(row)] = row_values[: len(row.ids)]
        return [by_index[id(row)] for row in rows_of(self.units)]

    def _cut(self) -> list[Unit]:
        """Returns the groups, or their parts: the objectives of answers add up row by row."""
        return cut_groups(self.units, GROUP_TOKENS)

    def window(self, max_units: int | None, max_tokens: int) -> Window:
        """Returns the rows as the data of a step, in micro-batches of at most so many groups.

        Args:
            max_units: the maximum number of groups.
            max_tokens: the maximum number of tokens; a part of a group may have `GROUP_TOKENS`, and
                a single row more.
        """
        constants = {
            WINDOW_TOKENS: float(max(1, self.tokens)),
            WINDOW_ROWS: float(max(1, self.rows)),
            WINDOW_UNITS: float(max(1, len(self.units))),
            **self.constants,
        }
        parts = micro_batches(self._cut(), max_units=max_units, max_batch_tokens=max_tokens)
        batches = [collate(part, constants, temperature=self.temperature) for part in parts]
        learns = any(map(_pulls, rows_of(self.units)))
        return Window(batches, self.tokens, self.metrics, self.notes, learns=learns)

    def save(self, file: Path) -> None:
        """Writes the rows; notes are left out, because they were emitted."""
        import numpy as np
        from safetensors.numpy import save_file

        rows = rows_of(self.units)
        arrays = {"ids": _joined([row.ids for row in rows], np.int64)}
        arrays["mask"] = _joined([row.mask for row in rows], np.bool_)
        for name in rows[0].extras if rows else ():
            values = [np.atleast_1d(row.extras[name]) for row in rows]
            arrays[f"extras.{name}"] = _joined(values, values[0].dtype)
        header = {
            "rows": [[row.source, len(row.ids)] for row in rows],
            "groups": [len(unit.rows) for unit in self.units],
            "scalars": [name for name in (rows[0].extras if rows else ()) if not _ndim(rows, name)],
            "tokens": self.tokens,
            "count": self.rows,
            "metrics": dict(self.metrics),
            "constants": dict(self.constants),
            "temperature": self.temperature,
        }
        save_file(arrays, file, metadata={"about": json.dumps(header)})

    @staticmethod
    def load(file: Path) -> "Buffer":
        """Returns the rows that `save` wrote."""
        from safetensors import safe_open

        stored: Any = safe_open(file, framework="np")
        header: dict[str, Any] = json.loads(stored.metadata()["about"])
        arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        rows = _rows(arrays, header["rows"], frozenset(header["scalars"]))
        units = tuple(Unit(tuple(next(rows) for _ in range(count))) for count in header["groups"])
        return Buffer(
            units,
            header["tokens"],
            header["count"],
            header["metrics"],
            constants=header["constants"],
            temperature=header["temperature"],
        )


def make_buffer(
    answers: "Sequence[Sequence[Answer]]",
    advantages_NG: "NDArray[np.float64]",
    skip_N: "NDArray[np.bool_]",
    *,
    mask_truncated: bool = False,
) -> Buffer:
    """Returns answers as rows with their advantages.

    An answer without a reward counts nowhere. The tokens of a truncated one may be masked: then it
    counts as an answer without tokens.

    Args:
        answers: the answers, [N][G].
        advantages_NG: the advantage of each.
        skip_N: groups to leave out because they have no gradient; their tokens count.
        mask_truncated: whether answers that were cut off are not learned.
    """
    units: list[Unit] = []
    tokens = count = 0
    for group, advantages, skip in zip(answers, advantages_NG.tolist(), skip_N, strict=True):
        scored = [pair for pair in zip(group, advantages, strict=True) if not pair[0].score.failed]
        learned = [pair for pair in scored if not (mask_truncated and pair[0].truncated)]
        count += len(scored)
        tokens += sum(len(answer.ids) for answer, _ in learned)
        if learned and not skip:
            units.append(Unit(tuple(_row(answer, advantage) for answer, advantage in learned)))
    return Buffer(tuple(units), tokens, count)


def select_tokens(
    buffer: Buffer, entropies: "Sequence[NDArray[np.float32]]", share: float
) -> Buffer:
    """Returns the rows with a mask of the tokens of highest entropy (arXiv:2506.01939, eq. 5).

    Args:
        buffer: the rows.
        entropies: of each row's tokens, [T].
        share: how many of the learned tokens of all rows are selected.
    """
    import numpy as np

    masks = [row.mask for row in rows_of(buffer.units)]
    learned = np.concatenate([values[mask] for values, mask in zip(entropies, masks, strict=True)])
    floor = np.quantile(learned, 1 - share)
    selected = [
        ((values >= floor) & mask).astype(np.float32)
        for values, mask in zip(entropies, masks, strict=True)
    ]
    count = float(max(1, sum(int(values.sum()) for values in selected)))
    selecting = buffer.with_extras(SELECTED, selected)
    return replace(selecting, constants={**buffer.constants, WINDOW_SELECTED: count})


def _pulls(row: Example) -> bool:
    """Returns whether a row has a gradient, even where the policy is still its reference."""
    import numpy as np

    return any(bool(np.any(row.extras[name])) for name in PULLS if name in row.extras)


def _row(answer: "Answer", advantage: float) -> Example:
    import numpy as np

    prompt = answer.prompt
    ids = np.concatenate([prompt.ids, np.array(answer.ids, dtype=np.int64)])
    mask = np.arange(len(ids)) >= len(prompt.ids)
    extras = {**prompt.extras, ADVANTAGES: np.array(advantage, dtype=np.float32)}
    return Example(ids, mask, prompt.source, answer.truncated, extras)


def _joined(arrays: "Sequence[NDArray[Any]]", dtype: Any) -> "NDArray[Any]":  # noqa: ANN401
    import numpy as np

    return np.concatenate(arrays) if arrays else np.zeros(0, dtype)


def _ndim(rows: Sequence[Example], name: str) -> int:
    import numpy as np

    return np.ndim(rows[0].extras[name])


def _rows(
    arrays: "Mapping[str, NDArray[Any]]", sources: Sequence[Any], scalars: frozenset[str]
) -> Iterator[Example]:
    start = 0
    for index, (source, length) in enumerate(sources):
        stop = start + length
        extras = {
            name.removeprefix("extras."): values[index]
            if name.removeprefix("extras.") in scalars
            else values[start:stop]
            for name, values in arrays.items()
            if name.startswith("extras.")
        }
        ids, mask = arrays["ids"][start:stop], arrays["mask"][start:stop]
        yield Example(ids, mask, source, truncated=False, extras=extras)
        start = stop
