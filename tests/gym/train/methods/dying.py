"""A worker that ends as `kill -9` does, in front of the gradient of a step.

python -m tests.gym.train.methods.dying RUN_FOLDER STEP
"""

import os
import signal
import sys
from typing import Any

from zoo.gym.jobs.worker import main
from zoo.gym.train import loop


def dies_at(last: int) -> None:
    """Makes the loop end this process when it comes to a step."""
    real = loop.accumulate

    def accumulate(method: Any, step: int, window: Any) -> dict[str, float]:
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(method, step, window)

    loop.accumulate = accumulate


if __name__ == "__main__":
    dies_at(int(sys.argv.pop()))
    sys.exit(main(sys.argv[1:]))
