"""Which fine-tunes may have learned the rows that a run held out."""

from collections.abc import Sequence

from zoo.gym.data import Record
from zoo.gym.errors import InputError
from zoo.gym.evaluate.sources import Contender
from zoo.gym.train.measuring import held_out_records


def learners_of(contender: Contender, sources: Sequence[Contender]) -> tuple[str, ...]:
    """Returns the names of the fine-tunes that may have learned the rows that a run held out.

    Those are all but runs that held out the same rows.
    """
    tuned = [each for each in sources if each.tuned is not None or each.lora is not None]
    if tuned == [contender]:
        return ()
    rows = _held_out_by(contender)
    others = [each for each in tuned if each != contender]
    return tuple(each.name for each in others if not rows <= _held_out_by(each))


def _held_out_by(contender: Contender) -> frozenset[Record]:
    """Returns the rows that the run of a source held out; none if they are not known."""
    run, tuned = contender.run, contender.tuned
    if run is None or tuned is None:
        return frozenset()
    try:
        config = tuned.config
    except InputError:  # the run learned lessons, or its settings are damaged
        return frozenset()
    records = () if config is None else held_out_records(run.folder, config)
    return frozenset() if isinstance(records, str) else frozenset(records)
