"""Requests and responses in the form of OpenAI's API.

A field that would change the answer and is not supported is refused by name; those that cannot
change it are accepted: `user`, `metadata`, `store`, `service_tier` and keys for caches.
"""

from typing import Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError
from zoo.gym.serving.forms import STRICT, Form, ResponseFormat, StructuredOutputs, Whole

MOST_STOPS, MOST_STOP, MOST_CHOICES, MOST_PROMPTS = 16, 1000, 16, 64

NOT_SUPPORTED: dict[str, tuple[object, ...]] = {
    "audio": (None,),
    "best_of": (None, 1),
    "function_call": (None, "none"),
    "functions": (None, []),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "suffix": (None, ""),
    "verbosity": (None,),
    "web_search_options": (None,),
}
"""Fields that would change an answer, with the values that change nothing."""


class RequestError(InputError):
    """A request that is not carried out.

    Attributes:
        param: the field that is wrong.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message, code="serving.bad_request")
        self.param = param


def _token_id(key: str) -> int:
    """Returns the token that a key of JSON is; not of ` 1` and `01`, which pydantic reads as 1."""
    if key.isascii() and key.isdigit() and str(int(key[:20])) == key:
        return int(key)
    raise PydanticCustomError("token", "expected the id of a token as a key")


TokenId: TypeAlias = Annotated[int, BeforeValidator(_token_id)]


class StreamOptions(BaseModel):
    """What a stream has besides the answer."""

    model_config = STRICT

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # accepted: it cannot change an answer


class Body(BaseModel):
    """What is read of every request for an answer."""

    model_config = STRICT
    prompt_field: ClassVar[str] = "prompt"

    model: str = Field(min_length=1, max_length=300)
    user_id: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: Whole | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    logit_bias: dict[TokenId, Annotated[float, Field(ge=-100, le=100)]] | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    seed: Whole | None = Field(default=None, ge=0, le=(1 << 63) - 1)
    n: Whole | None = Field(default=1, ge=1, le=MOST_CHOICES)
    stop: str | list[str] | None = None
    max_tokens: Whole | None = Field(default=None, ge=1)
    # accepted: they cannot change an answer
    metadata: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    user: Any = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, dict):
            return values
        for key, idle in NOT_SUPPORTED.items():
            if key in values and values[key] not in idle:
                raise RequestError(f"{key}: not supported by this server", param=key)
        return {key: value for key, value in values.items() if key not in NOT_SUPPORTED}

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: str | list[str] | None) -> str | list[str] | None:
        texts = [stop] if isinstance(stop, str) else stop or []
        if len(texts) > MOST_STOPS or not all(0 < len(text) <= MOST_STOP for text in texts):
            raise PydanticCustomError(
                "stop",
                "expected up to {texts} texts of 1 to {characters} characters",
                {"texts": MOST_STOPS, "characters": MOST_STOP},
            )
        return stop

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end an answer."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def form(self) -> Form | None:
        """What an answer has to be, if the request says so.

        Raises:
            RequestError: it says so twice.
        """
        stated = None if self.response_format is None else self.response_format.json_text
        if self.structured_outputs is None:
            return None if stated is None else ("response_format", "json", stated)
        if stated is not None:
            raise RequestError(
                "structured_outputs: expected it or response_format, got both",
                param="structured_outputs",
            )
        return "structured_outputs", "regex", self.structured_outputs.regex

    @property
    def reports_usage(self) -> bool:
        """Whether a stream ends with the number of tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def most_tokens(self) -> int | None:
        """The most tokens of an answer, if the request says so."""
        return self.max_tokens

    @property
    def limit_field(self) -> str:
        """The field that says it."""
        return "max_tokens"

    @property
    def most_likely(self) -> int:
        """How many of the most likely tokens are reported with each token."""
        return 0

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's tokens are reported with their log-probabilities."""
        return False

    def sampling(self, default: Sampling, prompt_tokens: int, positions: int) -> Sampling:
        """Returns how tokens are drawn.

        Args:
            default: what counts where the request says nothing.
            prompt_tokens: the tokens of the prompt.
            positions: the tokens of the model's context.

        Raises:
            RequestError: there is no room for so many tokens.
        """
        most, room = self.most_tokens, positions - prompt_tokens
        if room < 1:
            raise RequestError(
                f"{self.prompt_field}: expected at most {positions - 1} tokens, got "
                f"{prompt_tokens}: the context of this model",
                param=self.prompt_field,
            )
        if most is not None and most > room:
            raise RequestError(
                f"{self.limit_field}: expected at most {room}, which this prompt leaves of the "
                f"model's context, got {most}",
                param=self.limit_field,
            )
        try:
            return Sampling(
                max_new_tokens=room if most is None else max(most, 1),
                top_logprobs=self.most_likely,
                temperature=default.temperature if self.temperature is None else self.temperature,
                top_p=default.top_p if self.top_p is None else self.top_p,
                top_k=default.top_k if self.top_k is None else self.top_k,
                min_p=self.min_p or 0.0,
                presence_penalty=self.presence_penalty or 0.0,
                frequency_penalty=self.frequency_penalty or 0.0,
                logit_bias=tuple((self.logit_bias or {}).items()),
                stop_strings=self.stops,
            )
        except ValueError as error:
            raise RequestError(str(error), param=str(error).partition(":")[0]) from None


class CompletionBody(Body):
    """A request of /v1/completions."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: Whole | None = Field(default=None, ge=0, le=5)
    echo: bool | None = False
    max_tokens: Whole | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.max_tokens == 0 and not self.echo:
            raise RequestError("max_tokens: expected 1 or more without echo", param="max_tokens")
        if self.echo and self.stream:
            raise RequestError("echo: not supported with stream", param="echo")
        return self

    @property
    def most_likely(self) -> int:
        """How many of the most likely tokens are reported with each token."""
        return self.logprobs or 0

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's tokens are reported with their log-probabilities."""
        return bool(self.echo) and self.logprobs is not None

    def prompts(self) -> list[str | list[int]]:
        """Returns each prompt as text or tokens.

        Raises:
            RequestError: there are none, or too many.
        """
        prompt: Any = self.prompt
        several = isinstance(prompt, list) and not (prompt and isinstance(prompt[0], int))
        prompts: list[str | list[int]] = list(prompt) if several else [prompt]
        if not prompts or len(prompts) > MOST_PROMPTS or not all(prompts):
            raise RequestError(
                f"prompt: expected 1 to {MOST_PROMPTS} prompts, none empty", param="prompt"
            )
        return prompts


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Returns the numbers of tokens of a request."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def problem(
    message: str, *, kind: str = "invalid_request_error", param: str | None, code: str | None
) -> dict[str, Any]:
    """Returns the body of a response that is no success."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
