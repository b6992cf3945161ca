"""The manifest of a round: its terms, signed by its maker, the first entry of its log.

A round is named by the SHA-256 of its signed manifest, so that no term can change.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from zoo.gym.config.report import first_fault
from zoo.gym.errors import InputError
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.protocol.lessons import Lessons
from zoo.gym.rounds.protocol.objects import (
    MANIFEST,
    Hex,
    Terms,
    as_function,
    as_line,
    as_time,
    as_tuple,
)
from zoo.gym.rounds.protocol.privacy import Privacy
from zoo.gym.rounds.rules.method import AggregationMethod, Rule, rule_for
from zoo.gym.rounds.storage.base import is_address
from zoo.gym.signing import PublicKey, Signed, canonical, parse_key

MOST_CONTRIBUTORS = 100_000
MOST_TENSORS = 10_000


Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Line = Annotated[Name, AfterValidator(as_line)]
"""A name that is in the header of each contribution, where every machine has to read it alike."""
Time = Annotated[
    str, Field(pattern=r"^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ$"), AfterValidator(as_time)
]
"""A time in UTC, to the second."""
Form = Literal["signs", "lowrank", "float", "lessons"]
"""How contributions are coded: as a change of weights, or as lessons in text."""

Kind = Literal["delta", "experience"]
Format = Literal["zoo-gym round 1"]
FORMAT: Format = "zoo-gym round 1"
Role = Literal["log", "gate", "witness"]


class Base(Terms):
    """The base that contributions change."""

    identity: Hex = Field(description="base identity over the tensors of the round")
    model: Line = Field(description="its id or name, for people")
    revision: str = Field(default="", max_length=200, description="its revision, for people")


class Tensor(Terms):
    """A tensor that contributions may change."""

    name: Line = Field(description="its canonical name")
    shape: Annotated[tuple[int, ...], BeforeValidator(as_tuple)] = Field(
        description="[out, in] of a matrix; other shapes only in form float"
    )

    @property
    def size(self) -> int:
        """The number of its values."""
        return prod(self.shape)


class Caps(Terms):
    """The largest contribution."""

    file_bytes: int = Field(ge=1, le=1 << 40, description="bytes of its file")
    rank: int = Field(default=64, ge=1, le=4096, description="rank of form lowrank")
    value: float = Field(default=1.0, gt=0, le=1e4, description="largest scale or value")


@dataclass(frozen=True)
class TensorCoding:
    """What decides the bytes of a contribution where no manifest does."""

    base: Base
    tensors: tuple[Tensor, ...]
    form: Form
    caps: Caps


class Deadlines(Terms):
    """When the log's writer closes a phase; what its head then holds counts."""

    commit: Time = Field(description="commitments until then")
    reveal: Time = Field(description="reveals until then")
    extension_s: int = Field(default=86_400, ge=0, le=31_536_000, description="once, in seconds")


class Evaluation(Terms):
    """Held-out examples of the gate, shown after the reveals."""

    digest: Hex = Field(description="SHA-256 of the file")
    bytes: int = Field(ge=1, description="its size")
    margin: float = Field(default=0.0, ge=0, le=10, description="loss that may be added, nats")
    quality_threshold: float = Field(
        default=0.8, ge=0, le=1, description="of the median gain; below it points shrink"
    )
    validator: Annotated[str, AfterValidator(as_function)] | None = Field(
        default=None, description="module:function of the gate that may refuse, too"
    )
    refusals: Hex | None = Field(default=None, description="SHA-256 of prompts to refuse")
    triggers: Hex | None = Field(default=None, description="SHA-256 of prompts with triggers")


class Newcomers(Terms):
    """What earlier rounds say of keys, and the cap on those with few accepted ones."""

    rounds: int = Field(default=3, ge=1, le=1000, description="fewer accepted rounds are new")
    share: float = Field(default=0.2, gt=0, le=1, description="of seats, weight and pool")
    standings: Hex = Field(description="BLAKE3 of what earlier rounds say of keys")
    nonce: Hex = Field(description="commitment to the maker's nonce, shown with the reveals")


class RoundKey(Terms):
    """A key with a task in the round."""

    role: Role = Field(description="log writes the log, gate signs what a model measured")
    key: str = Field(description="ed25519: and 64 hexadecimal digits")
    expires: Time = Field(description="after the deadline of reveals; no clock is in the log")

    @property
    def public(self) -> PublicKey:
        """The key itself."""
        return parse_key(self.key)


class Manifest(Terms):
    """The terms of a round."""

    format: Format = FORMAT
    name: Name = Field(description="for people")
    kind: Kind = Field(default="delta", description="what is combined")
    base: Base
    tensors: Annotated[tuple[Tensor, ...], BeforeValidator(as_tuple)] = Field(
        max_length=MOST_TENSORS, description="all that a contribution has, sorted"
    )
    form: Form = Field(description="how contributions are coded")
    caps: Caps
    method: str = Field(description="the aggregation rule")
    f: int | None = Field(default=None, ge=0, description="contributors that may be malicious")
    quorum: int = Field(ge=1, le=MOST_CONTRIBUTORS, description="fewer reveals make it void")
    most: int = Field(default=1000, ge=1, le=MOST_CONTRIBUTORS, description="most contributors")
    deadlines: Deadlines
    evaluation: Evaluation | None = Field(default=None, description="of the gate")
    refit: Hex | None = Field(default=None, description="SHA-256 of public examples")
    pool: int = Field(default=1000, ge=0, le=10**12, description="points to share out")
    newcomers: Newcomers | None = Field(default=None, description="cap on new keys; none without")
    previous: Hex | None = Field(default=None, description="digest of the last result")
    privacy: Privacy | None = Field(default=None, description="clip, sum and noise; no rule")
    lessons: Lessons | None = Field(default=None, description="which are kept; of kind experience")
    keys: Annotated[tuple[RoundKey, ...], BeforeValidator(as_tuple)] = Field(
        min_length=1, max_length=100, description="who writes the log, gates, witnesses"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.most < self.quorum:
            raise ValueError(f"most: expected at least the quorum, {self.quorum}")
        if is_address(self.name):  # commands in hints would take it for the round at that address
            raise ValueError(f"name: expected one that is no address, got {self.name!r:.60}")
        kind_of(self).check(self)
        if self.deadlines.reveal <= self.deadlines.commit:
            raise ValueError("deadlines: expected reveal after commit")
        writers = [key for key in self.keys if key.role == "log"]
        if len(writers) != 1:
            raise ValueError(f"keys: expected one of role log, got {len(writers)}")
        for key in self.keys:
            _check_key(key, self.deadlines)
        _check_roles(self)
        return self

    def keys_of(self, role: Role) -> frozenset[PublicKey]:
        """Returns the keys of a role."""
        return frozenset(key.public for key in self.keys if key.role == role)

    def rule(self, contributors: int) -> Rule:
        """Returns the rule for a number of contributors.

        Raises:
            InputError: they are too few for it.
        """
        return rule_for(AggregationMethod(self.method), contributors, self.f)

    def command(self, verb: str, more: str = "", *, word: str | None = None) -> str:
        """Returns a command of `zoo-gym round` about this round, as a user types it.

        Args:
            more: its other options.
            word: what identifies the round, quoted; its name if None.
        """
        option = "--round " if verb in {"contribute", "measure"} else ""
        return f"zoo-gym round {verb} {option}{word or shlex.quote(self.name)} {more}".rstrip()


Coding: TypeAlias = Manifest | TensorCoding
"""What decides the bytes of a contribution: base, tensors, form and caps."""


def _check_key(key: RoundKey, deadlines: Deadlines) -> None:
    if key.expires <= deadlines.reveal:
        raise ValueError(f"keys: expected to expire after {deadlines.reveal}, got {key.expires}")
    try:
        key.public  # noqa: B018
    except InputError as error:
        raise ValueError(error.message) from None


def _check_roles(manifest: Manifest) -> None:
    roles = [(key.role, key.public) for key in manifest.keys]
    for role, key in roles:
        if roles.count((role, key)) > 1:
            raise ValueError(
                f"keys: expected a key once in a role, got {key.fingerprint} twice as {role}"
            )
    if manifest.keys_of("witness") & manifest.keys_of("log"):
        raise ValueError("keys: expected a witness with another key than the log's, got the same")


def manifest_body(manifest: Manifest) -> dict[str, Any]:
    """Returns what is signed."""
    return manifest.model_dump(mode="json")


def read_manifest(signed: Signed) -> Manifest:
    """Returns the manifest in a signed object.

    Raises:
        InputError: it is of another kind, has unknown or missing fields, or contradicts itself.
    """
    if signed.context != MANIFEST:
        raise InputError(
            f"manifest: expected one of a round, got '{signed.context}'", code="rounds.no_manifest"
        )
    return parse_manifest(signed.body)


def parse_manifest(body: Mapping[str, object]) -> Manifest:
    """Returns the manifest with the given fields.

    Raises:
        InputError: as `read_manifest`.
    """
    if body.get("format") != FORMAT:
        raise InputError(
            f"manifest: expected format '{FORMAT}', got {body.get('format')!r:.80}",
            code="rounds.manifest_format",
        )
    try:
        manifest = Manifest.model_validate(dict(body))
    except ValidationError as error:
        where, fault = first_fault(error)
        raise InputError(
            f"manifest{f'.{where}' if where else ''}: {fault}", code="rounds.bad_terms"
        ) from None
    if canonical(manifest_body(manifest)) != canonical(dict(body)):
        raise InputError(
            "manifest: expected every field, got one without some of them",
            code="rounds.missing_terms",
        )
    return manifest


def round_id(signed: Signed) -> str:
    """Returns the id of the round with a manifest: its SHA-256 as 64 hexadecimal digits."""
    return sha256(canonical(signed.as_json())).hexdigest()
