"""The published names of many people's variants; the objects are those of `zoo.gym`."""

from zoo.gym.published.personalized import (
    PersonalizedServer,
    PersonalizedTrainer,
    ServedVariant,
    Variant,
)

__all__ = ["PersonalizedServer", "PersonalizedTrainer", "ServedVariant", "Variant"]
