"""What tests on a few tokens found out about a model: `generation.probes`, `packable`."""

from dataclasses import dataclass


@dataclass
class Abilities:
    """The findings; None until a test has run. An empty text means that nothing speaks against it.

    Attributes:
        padding: whether padding on the left leaves the logits as they are.
        rows: why rows of the state between tokens cannot be repeated and removed.
        row_bytes: the memory of a row's state, whatever its length.
        token_bytes: the memory of the state per token of a row.
        prefix: why rows cannot share the tokens they begin with.
        noise: why they cannot do so in training.
        line: why rows cannot be computed one after the other, without padding.
        kept: why rows cannot be sampled after a prefix that is kept once for all.
        slots: why rows cannot come and go between tokens.
    """

    padding: bool | None = None
    rows: str | None = None
    row_bytes: int = 0
    token_bytes: int = 0
    prefix: str | None = None
    noise: str | None = None
    line: str | None = None
    kept: str | None = None
    slots: str | None = None
