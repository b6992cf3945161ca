"""The published module of `PersonalizedTrainer`; it says what there is instead."""

from zoo.gym.published.absent import no_such_name

__all__: list[str] = []


def __getattr__(name: str) -> object:
    raise no_such_name(__name__, name)
