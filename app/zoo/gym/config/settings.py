"""The base of all settings: a frozen model that reports errors with our messages."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from zoo.gym.config import report
from zoo.gym.errors import InputError


@contextmanager
def _our_error(model: type[BaseModel]) -> Generator[None]:
    """Turns pydantic's error into ours, one line for each key."""
    try:
        yield
    except ValidationError as error:
        lines = (f"{key}: {text}" for key, text in report.sentences(error, model))
        raise InputError(
            "\n".join(lines), hint=report.hint_of(error), code="config.invalid"
        ) from error


class Settings(BaseModel, frozen=True):
    """Settings that are checked on creation and immutable."""

    model_config = ConfigDict(extra="forbid")

    def __init__(self, /, **values: Any) -> None:  # noqa: ANN401 - each field has its own type
        """Checks the values.

        Raises:
            InputError: unknown keys or invalid values, one line for each.
        """
        public, private = self._apart(values)
        with _our_error(type(self)):
            super().__init__(**public)
        self._set_private(private)

    # as in pydantic's own subclasses: the methods below do not call it
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:  # noqa: ANN401 - as pydantic has it
        """Checks the values of a mapping, as the constructor does.

        Raises:
            InputError: unknown keys or invalid values, one line for each.
        """
        kind, public = cls._kind_of(obj), obj
        private: dict[str, object] = {}
        if isinstance(obj, Mapping):
            public, private = cls._apart(dict(cast("Mapping[str, object]", obj)))
        with _our_error(kind):
            settings = super(Settings, kind).model_validate(public, **options)
        settings._set_private(private)
        return settings

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:  # noqa: ANN401
        """Checks the values of a JSON object, as the constructor does.

        Raises:
            InputError: broken JSON, unknown keys or invalid values, one line for each.
        """
        try:
            values: object = from_json(json_data)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"settings: expected a JSON object: {error}", code="config.not_json"
            ) from None
        return cls.model_validate(values, **options)

    @classmethod
    def model_validate_strings(cls, obj: Any, **options: Any) -> Self:  # noqa: ANN401
        """Checks the values of a mapping of texts, as the constructor does.

        Raises:
            InputError: unknown keys or invalid values, one line for each.
        """
        kind = cls._kind_of(obj)
        with _our_error(kind):
            return super(Settings, kind).model_validate_strings(obj, **options)

    @classmethod
    def from_text(cls, values: Mapping[str, object]) -> Self:
        """Checks values that were read from a file or the command line.

        Raises:
            ValidationError: unknown keys or invalid values; the caller, who knows file and line,
                makes messages of it with `report.sentences`.
        """
        return super().model_validate(values)

    @classmethod
    def _kind_of(cls, values: object) -> type[Self]:
        """Returns the class that these values are settings of."""
        del values
        return cls

    def idle_settings(self) -> Sequence[tuple[str, str]]:
        """Returns (key, reason) for each given setting that other settings leave without effect.

        These are accepted and reported, because published files have them; others are refused.
        """
        return ()

    @classmethod
    def _apart(cls, values: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Returns the values of settings, and those of private attributes."""
        return values, {}

    def _set_private(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to change a setting: settings are validated together.

        Raises:
            InputError: `name` is a setting.
        """
        if name in type(self).model_fields:
            kind = type(self).__name__
            values = "settings.model_dump(exclude_unset=True)"
            raise InputError(
                f"{name}: settings are immutable: expected a new object",
                hint=f"{kind}(**({values} | {{{name!r}: {value!r}}}))",
                code="config.immutable",
            )
        super().__setattr__(name, value)
