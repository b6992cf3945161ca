from tests.gym.cli.conftest import Call, call

__all__ = ["Call", "call"]
