"""Loads a base, listens, and answers until it is stopped."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from zoo.backends.machine.threads import choose_threads, use_threads
from zoo.backends.sampling import Sampling
from zoo.backends.spec import QuantizationSpec
from zoo.gym.chat.greedy import stated_sampling, warn_of_settings
from zoo.gym.errors import InputError
from zoo.gym.http_guard.config import LOCAL_NAMES, HttpConfig
from zoo.gym.http_guard.gate import Gate
from zoo.gym.http_guard.run import HttpServer, stored_token
from zoo.gym.paths import folders
from zoo.gym.serving.callers import OWNER, Caller, refusal, users_of
from zoo.gym.serving.engine import Engine
from zoo.gym.serving.variants import UNLIMITED, Models
from zoo.gym.tuned.source import Source
from zoo.models.folder import count_parameters, model_positions

if TYPE_CHECKING:
    from fastapi import FastAPI

DEFAULT_PORT = 8000

MOST_QUEUED = 1_000_000
"""Answers that may wait where a program waits for what it asks, unlike clients of a server."""


class ServeConfig(HttpConfig):
    """Where a server of models listens, and how much it takes on."""

    needs_tls: ClassVar[bool] = False
    grace_s: ClassVar[float] = 0.0

    port: int = Field(default=DEFAULT_PORT, ge=0, le=65_535, description="0: any free one")
    request_s: float = Field(default=3600.0, gt=0, le=86_400, description="seconds for an answer")
    concurrency: int = Field(default=512, ge=1, le=10_000, description="connections at a time")
    rows: int = Field(default=16, ge=1, le=1024, description="answers that are computed at once")
    queue: int = Field(
        default=128,
        ge=1,
        le=MOST_QUEUED,
        description="answers that may wait or be computed at once",
    )
    cache_size: int | None = Field(
        default=None, ge=1, description="bytes of keys and values at most; none: as memory allows"
    )
    quantization: QuantizationSpec | None = Field(
        default=None, description="how the weights of a model folder are quantised"
    )
    template: str | None = Field(
        default=None, description="the chat template of the base and of all variants"
    )
    needs_token: bool = Field(default=True, description="whether requests need the token")
    user_tokens: tuple[str, ...] = Field(
        default=(), description="variants with a token that is for them alone"
    )

    allow_graders: bool = Field(
        default=False, description="whether a fine-tuning job may bring a grader in Python"
    )

    @property
    def host_names(self) -> frozenset[str]:
        """What the header Host may say; no page of a browser can have a local name."""
        return frozenset((*self.names, *LOCAL_NAMES))

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if self.user_tokens and not self.needs_token:
            raise ValueError("user_tokens: expected none where requests need no token")
        return self


class ModelServer:
    """Serves a base and variants of it: `await start()`, `await stop()`.

    Args:
        base: the base's folder.
        name: what requests call it.
        sources: variants by name; the runs of the base are there besides.
        config: where it listens.
        folder: has more variants by their names, see `Models`.

    Attributes:
        url: the address, once it has started.
        token: what requests need; None if they need none.
        user_tokens: the tokens of users, by the variant that each may ask, once it has started.
        ids: returns the names of its models, the base first.
    """

    def __init__(
        self,
        base: Path,
        name: str,
        sources: Mapping[str, Source],
        config: ServeConfig,
        folder: Path | None = None,
    ) -> None:
        if not config.needs_token and not config.is_local:
            raise InputError(
                "token: expected one for other machines, got none",
                hint="leave out --no-token",
                code="serving.no_token",
            )
        self.base, self.name, self.sources, self.config = base, name, sources, config
        self.folder = folder
        self.url = ""
        self.user_tokens: dict[str, str] = {}
        self.token = stored_token(token_file()) if config.needs_token else None
        self._http = HttpServer(config)
        self._open = ExitStack()
        self._engine: Engine | None = None
        self.ids: Callable[[], list[str]] = lambda: [self.name]

    @property
    def variants(self) -> list[str]:
        """The variants that were named at the start."""
        return sorted(self.sources)

    @property
    def active(self) -> int:
        """The answers that wait or are being computed."""
        return 0 if self._engine is None else self._engine.active

    async def start(self) -> None:
        """Loads the base, and returns when requests are answered.

        Raises:
            NotAvailableError: the extra `serve` is not installed, or there is no variant of a user.
            InputError: the address is in use, or the base or a named variant cannot be served.
        """
        models = self._models()
        self._engine, self.ids = models.engine, models.ids
        self._open.callback(models.engine.close)

        def application() -> "FastAPI":
            from zoo.gym.serving.routes import build

            return build(models, runs_graders=self.config.allow_graders)

        with ExitStack() as failed:
            failed.callback(self._open.close)
            for variant in self.sources:
                await models.ask(variant)
            gate = await self._gate(models)
            self._http.listen("a server of models", application, gate)
            await self._http.start()
            failed.pop_all()
        self.url = self._http.url

    async def _gate(self, models: Models) -> Gate[Caller]:
        users = await users_of(models, self.base, self.config.user_tokens)
        self.user_tokens = {str(user.variant): user.token for user in users}
        tokens = {} if self.token is None else {OWNER: self.token}
        return Gate(
            self.config.host_names,
            frozenset(self.config.origins),
            tokens | {user: user.token for user in users},
            anybody=OWNER if self.token is None else None,
            open_paths=frozenset({"/health"}),
            refusal=refusal,
        )

    def _models(self) -> Models:
        """Loads the models, with an engine that is closed before what `_open` has now."""
        return load_models(self.base, self.name, self.sources, self.folder, self.config)

    async def stop(self) -> None:
        """Ends what is being answered, and frees the model."""
        await self._http.stop()
        self._open.close()


def load_models(
    base: Path,
    name: str,
    sources: Mapping[str, Source],
    folder: Path | None,
    config: ServeConfig,
    device: str | None = None,
) -> Models:
    """Loads a base, with an engine that answers; close that at the end.

    Args:
        base: the base's folder.
        name: what requests call it.
        sources: variants by name.
        folder: has more variants, see `Models`.
        config: how many answers there may be, and how the base is loaded.
        device: the device; by default the best one that can load the base.

    Raises:
        InputError: the base cannot be loaded, or there is no such device.
        NotAvailableError: the machine lacks the device.
    """
    from zoo.backends.base import LoadSpec
    from zoo.backends.batching import OneByOne
    from zoo.gym.engine import engine_for, open_engine

    warn_of_settings(base)
    use_threads(choose_threads(count_parameters(base)))
    loader = engine_for(base) if device is None else open_engine(device)
    policy = loader.load(base, LoadSpec(quantization=config.quantization))
    tokens = model_positions(base) or UNLIMITED
    batcher = policy.batcher(rows=config.rows, tokens=tokens, cache_bytes=config.cache_size)
    batcher = batcher or OneByOne(policy, tokens=tokens)
    drawn = stated_sampling(base) or {"temperature": 1.0}
    engine = Engine(batcher, most=config.queue)
    return Models(base, name, engine, sources, Sampling(**drawn), folder, config.template)


def token_file() -> Path:
    """Returns the file of this user's token."""
    return folders().data / "serve.token"
