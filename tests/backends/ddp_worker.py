"""One process of a distributed step; `test_distributed.py` starts two.

usage: ddp_worker.py MODEL_FOLDER lora|full RANK PORT OUT
"""

import os
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from tests.backends.objectives_for_tests import GRPO
from tests.backends.reference import example_batch
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec
from zoo.backends.torch.policy import TorchPolicy

METHODS: dict[str, LoraSpec | Literal["full"]] = {
    "lora": LoraSpec(rank=4, alpha=8.0),
    "full": "full",
}


def main(folder: Path, method: str, rank: int, port: str, out: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    policy = load_backend("cpu").load(folder, LoadSpec(train=METHODS[method], seed=1))
    assert isinstance(policy, TorchPolicy)
    policy.wrap(torch.nn.parallel.DistributedDataParallel, processes=2)
    batch = example_batch(rows=8)
    mine = slice(rank * 4, rank * 4 + 4)
    part = Batch(
        batch.ids_BT[mine],
        batch.lengths_B[mine],
        batch.loss_mask_BT[mine],
        {name: value[mine] for name, value in batch.extras.items()},
        batch.constants,
    )
    policy.accumulate(GRPO, part, key=0)
    if rank == 0:
        found: dict[str, Any] = dict(policy.gradients())
        np.savez(out, **found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
