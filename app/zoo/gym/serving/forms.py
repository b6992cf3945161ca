"""What an answer has to be, as requests say it; `structured` enforces it."""

import json
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Form: TypeAlias = tuple[str, str, str]
"""What an answer has to be: the field that says so, `json`, `regex` or `call`, and the schema, the
regex, or the JSON of `begin`, `schema` and `end` of a call."""

STRICT = ConfigDict(extra="forbid", strict=True)
"""Of what is read of a request: `"2"` and `true` are no numbers."""

T = TypeVar("T")


def _finite(value: T) -> T:
    """Refuses numbers that JSON does not have, in a value of any form: no response could have it.

    Raises:
        PydanticCustomError: there is one.
    """
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError("form", "expected finite numbers, got another") from None
    return value


def _whole(value: object) -> object:
    """Returns a whole number however it is written: JSON does not tell 2.0 from 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole: TypeAlias = Annotated[int, BeforeValidator(_whole)]
"""A whole number in a request."""

Finite: TypeAlias = Annotated[T, AfterValidator(_finite)]
"""JSON of any form, without NaN and infinities, which pydantic reads."""

Json: TypeAlias = dict[str, Any]


class JsonSchema(BaseModel):
    """A schema in a request; it is enforced with `strict` and without."""

    model_config = STRICT

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    contents: Finite[Json] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(BaseModel):
    """What an answer has to be."""

    model_config = STRICT

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise PydanticCustomError(
                "form", "expected json_schema with the type json_schema, and only there"
            )
        return self

    @property
    def json_text(self) -> str | None:
        """The schema as text; None if any text will do."""
        if self.json_schema is not None:
            return json.dumps(self.json_schema.contents, ensure_ascii=False)
        return '{"type": "object"}' if self.type == "json_object" else None


class StructuredOutputs(BaseModel):
    """What an answer has to be, by the name that vLLM has for it."""

    model_config = STRICT

    regex: str = Field(min_length=1)
