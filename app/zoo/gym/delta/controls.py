"""Controls of a measured delta: changes of the base that should be no good.

The same scales with random signs, the exact change of the fine-tune at 0.7 of its size, and the
delta of another user. A gain that random signs or another user's delta give as well says nothing
of the fine-tune; and where the exact change is better at 0.7, a lossy coding may look better than
it is.
"""

import re
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from zoo.gym.delta.apply import write_weights
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.delta.loadable import Loadable, delta_model
from zoo.gym.delta.random_control import has_random_control, random_signs
from zoo.gym.delta.reading.adapter import is_adapter, read_adapter, read_factors, write_adapter
from zoo.gym.delta.reading.weights import named_as, open_weights
from zoo.gym.delta.rebuild import Interpolation
from zoo.gym.errors import GymWarning

OTHER, SCALED, RANDOM = "another-delta", "exact-x0.7", "random-signs"
SHARE = 0.7

Make = Callable[[], AbstractContextManager[Loadable]]


def controls(
    delta: Delta, base: Path, tuned: Path | None, other: Path | None
) -> Iterator[tuple[str, Make]]:
    """Yields the kind of each control and what makes it, sorted by kind.

    Args:
        delta: the delta that is measured.
        base: its base.
        tuned: the fine-tune; without it, its exact change is left out.
        other: the delta of another user on the same base, if one is compared.
    """
    if other is not None:
        yield OTHER, partial(delta_model, load_delta(other), base)
    if tuned is not None:
        yield SCALED, partial(scaled_fine_tune, tuned, base, SHARE)
    if has_random_control(delta):
        yield RANDOM, partial(_random, delta, base)


@contextmanager
def _random(delta: Delta, base: Path) -> Generator[Loadable]:
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        control = random_signs(delta.path, Path(scratch) / "control.safetensors", seed=0)
        with delta_model(control, base) as model:
            yield model


@contextmanager
def scaled_fine_tune(tuned: Path, base: Path, share: float) -> Generator[Loadable]:
    """Yields base + share * (fine-tune - base) in float32, valid inside the block.

    Raises:
        StorageError: the temporary folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as scratch:
        folder, weights = Path(scratch), open_weights(base)
        if is_adapter(tuned):
            adapter = read_adapter(tuned, weights)
            write_adapter(
                folder,
                ((name, *read_factors(adapter, name)) for name in sorted(adapter.factors)),
                base.name,
                share,
                base=weights,
            )
            yield Loadable(base, folder)
        else:
            changed = named_as(open_weights(tuned), weights)
            write_weights(base, folder / "model", Interpolation(weights, changed, share))
            with warnings.catch_warnings():  # those of unused tensors are for the base itself
                warnings.filterwarnings("ignore", re.escape(scratch), GymWarning)
                yield Loadable(folder / "model", None)
