"""The setting of methods whose steps can keep what the model answers."""

from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number, chosen


class RetainingConfig(TrainConfig, frozen=True):
    """Settings of a run that can learn the model's own answers beside the data."""

    retain: Number | None = chosen(
        ge=0,
        le=0.9,
        description="the share of all rows that are answers of the model itself to general prompts,"
        " added to the data so that it keeps them; by default 0.5 with an adapter on a model in"
        " which retention finds answers, else 0; in full training it takes a second copy of it",
    )
