"""Train, personalise and share small language models on your own machine.

Train:  `run_training(TrainConfig(model_name_or_path="zen-pico", dataset="my.jsonl"))`
        `run_training(settings, on_event=show_progress)` shows its progress
        `Trainer(TrainingConfig(model="zen-pico")).train("my.jsonl")`
        `run_sft(*get_train_args({"model_name_or_path": "zen-pico", "dataset": "my.jsonl"}))`
        `GRPOTrainer("zen-pico", config=GRPOConfig(), reward_model=function).train(rows)`
        `TrainingFreeGRPO("deepseek/MODEL", GRPOConfig()).train(rows, function)` learns lessons
Chat:   `generate("zen-pico", ["a prompt"], adapter=...)`, or `with open_chat(...)` for turns
Deltas: `create_delta`, `apply_delta`, `check_delta`, `load_delta`
        `BitDeltaQuantizer(BitDeltaConfig()).quantize_delta(weight, base_weight)` of one tensor
        `DeltaQuantizer(DeltaQuantConfig(method=QuantMethod.INT4))` likewise
        `PersonalizedTrainer("zen-pico").create_variant(user, rows)` for each of many people
Share:  `DeltaSoup(DeltaSoupConfig()).contribute(user, model)`, then `aggregate()`
Errors: every failure that a caller can handle is a `GymError`

The public names are loaded on first use, so that importing this package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.core import __version__ as __version__
    from zoo.gym.chat import ChatSession as ChatSession
    from zoo.gym.chat import generate as generate
    from zoo.gym.chat import open_chat as open_chat
    from zoo.gym.config import TrainConfig as TrainConfig
    from zoo.gym.config.bitdelta import BitDeltaConfig as BitDeltaConfig
    from zoo.gym.config.delta import DeltaConfig as DeltaConfig
    from zoo.gym.config.deltaquant import DeltaQuantConfig as DeltaQuantConfig
    from zoo.gym.config.deltaquant import QuantMethod as QuantMethod
    from zoo.gym.delta import DeltaReport as DeltaReport
    from zoo.gym.delta import Origin as Origin
    from zoo.gym.delta import QualityInput as QualityInput
    from zoo.gym.delta import apply_delta as apply_delta
    from zoo.gym.delta import check_delta as check_delta
    from zoo.gym.delta import create_delta as create_delta
    from zoo.gym.delta import load_delta as load_delta
    from zoo.gym.errors import DoesNotFitError as DoesNotFitError
    from zoo.gym.errors import GuardError as GuardError
    from zoo.gym.errors import GymError as GymError
    from zoo.gym.errors import GymWarning as GymWarning
    from zoo.gym.errors import InputError as InputError
    from zoo.gym.errors import InterruptedRunError as InterruptedRunError
    from zoo.gym.errors import NotAvailableError as NotAvailableError
    from zoo.gym.errors import StorageError as StorageError
    from zoo.gym.jobs.run import RunResult as RunResult
    from zoo.gym.published.api import quality_input as quality_input
    from zoo.gym.published.api import run_training as run_training
    from zoo.gym.published.grpo import GRPOConfig as GRPOConfig
    from zoo.gym.published.grpo import GRPOTrainer as GRPOTrainer
    from zoo.gym.published.hparams import get_train_args as get_train_args
    from zoo.gym.published.hparams import run_sft as run_sft
    from zoo.gym.published.live_progress import show_progress as show_progress
    from zoo.gym.published.personalized import PersonalizedServer as PersonalizedServer
    from zoo.gym.published.personalized import PersonalizedTrainer as PersonalizedTrainer
    from zoo.gym.published.quantizers import BitDeltaQuantizer as BitDeltaQuantizer
    from zoo.gym.published.quantizers import DeltaQuantizer as DeltaQuantizer
    from zoo.gym.published.soup.config import DeltaSoupConfig as DeltaSoupConfig
    from zoo.gym.published.soup.contributors import ContributorProfile as ContributorProfile
    from zoo.gym.published.soup.result import AggregateResult as AggregateResult
    from zoo.gym.published.soup.soup import DeltaSoup as DeltaSoup
    from zoo.gym.published.trainer import Trainer as Trainer
    from zoo.gym.published.trainer import TrainingConfig as TrainingConfig
    from zoo.gym.published.training_free_grpo import ExperienceLibrary as ExperienceLibrary
    from zoo.gym.published.training_free_grpo import TrainingFreeGRPO as TrainingFreeGRPO
    from zoo.gym.rounds.rules.method import AggregationMethod as AggregationMethod
    from zoo.gym.rounds.server.run import CommunityLearningServer as CommunityLearningServer
    from zoo.models import resolve as resolve

_HOMES = {
    "AggregateResult": "zoo.gym.published.soup.result",
    "AggregationMethod": "zoo.gym.rounds.rules.method",
    "BitDeltaConfig": "zoo.gym.config.bitdelta",
    "BitDeltaQuantizer": "zoo.gym.published.quantizers",
    "ChatSession": "zoo.gym.chat",
    "ContributorProfile": "zoo.gym.published.soup.contributors",
    "CommunityLearningServer": "zoo.gym.rounds.server.run",
    "DeltaConfig": "zoo.gym.config.delta",
    "DeltaQuantConfig": "zoo.gym.config.deltaquant",
    "DeltaQuantizer": "zoo.gym.published.quantizers",
    "DeltaReport": "zoo.gym.delta",
    "DeltaSoup": "zoo.gym.published.soup.soup",
    "DeltaSoupConfig": "zoo.gym.published.soup.config",
    "DoesNotFitError": "zoo.gym.errors",
    "ExperienceLibrary": "zoo.gym.published.training_free_grpo",
    "GRPOConfig": "zoo.gym.published.grpo",
    "GRPOTrainer": "zoo.gym.published.grpo",
    "GuardError": "zoo.gym.errors",
    "GymError": "zoo.gym.errors",
    "GymWarning": "zoo.gym.errors",
    "InputError": "zoo.gym.errors",
    "InterruptedRunError": "zoo.gym.errors",
    "NotAvailableError": "zoo.gym.errors",
    "Origin": "zoo.gym.delta",
    "PersonalizedServer": "zoo.gym.published.personalized",
    "PersonalizedTrainer": "zoo.gym.published.personalized",
    "QualityInput": "zoo.gym.delta",
    "QuantMethod": "zoo.gym.config.deltaquant",
    "RunResult": "zoo.gym.jobs.run",
    "StorageError": "zoo.gym.errors",
    "TrainConfig": "zoo.gym.config",
    "Trainer": "zoo.gym.published.trainer",
    "TrainingConfig": "zoo.gym.published.trainer",
    "TrainingFreeGRPO": "zoo.gym.published.training_free_grpo",
    "__version__": "zoo.core",
    "apply_delta": "zoo.gym.delta",
    "check_delta": "zoo.gym.delta",
    "create_delta": "zoo.gym.delta",
    "generate": "zoo.gym.chat",
    "get_train_args": "zoo.gym.published.hparams",
    "load_delta": "zoo.gym.delta",
    "open_chat": "zoo.gym.chat",
    "quality_input": "zoo.gym.published.api",
    "resolve": "zoo.models",
    "run_sft": "zoo.gym.published.hparams",
    "run_training": "zoo.gym.published.api",
    "show_progress": "zoo.gym.published.live_progress",
}

__all__ = [
    "AggregateResult",
    "AggregationMethod",
    "BitDeltaConfig",
    "BitDeltaQuantizer",
    "ChatSession",
    "CommunityLearningServer",
    "ContributorProfile",
    "DeltaConfig",
    "DeltaQuantConfig",
    "DeltaQuantizer",
    "DeltaReport",
    "DeltaSoup",
    "DeltaSoupConfig",
    "DoesNotFitError",
    "ExperienceLibrary",
    "GRPOConfig",
    "GRPOTrainer",
    "GuardError",
    "GymError",
    "GymWarning",
    "InputError",
    "InterruptedRunError",
    "NotAvailableError",
    "Origin",
    "PersonalizedServer",
    "PersonalizedTrainer",
    "QualityInput",
    "QuantMethod",
    "RunResult",
    "StorageError",
    "TrainConfig",
    "Trainer",
    "TrainingConfig",
    "TrainingFreeGRPO",
    "__version__",
    "apply_delta",
    "check_delta",
    "create_delta",
    "generate",
    "get_train_args",
    "load_delta",
    "open_chat",
    "quality_input",
    "resolve",
    "run_sft",
    "run_training",
    "show_progress",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
