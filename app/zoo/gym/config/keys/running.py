"""Number format, randomness, evaluations, checkpoints and output."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from zoo.gym.config.settings import Settings
from zoo.gym.config.values import MOST_SEED, Whole, chosen, path_text, sorted_names


class RunningKeys(Settings, frozen=True):
    """Number format, randomness, evaluations, checkpoints and output."""

    seed: Whole = Field(
        default=42,
        ge=0,
        le=MOST_SEED,
        description="the random seed",
    )
    backend: Literal["auto", "cuda", "mlx", "mps", "cpu"] = Field(
        default="auto",
        description="the device to train on, with its engine: mlx is MLX, the others are torch;"
        " auto: the first of cuda, mlx on an Apple GPU, mps and cpu that works",
    )
    num_processes: Whole = Field(
        default=1,
        ge=1,
        le=1024,
        description="processes that divide the rows of each step, one per GPU; a step has"
        " per_device_train_batch_size * gradient_accumulation_steps rows for each",
    )
    sharding: Literal["none", "full"] = Field(
        default="none",
        description="full: divide the model, its gradients and the optimizer's state among the"
        " processes, by torch's FSDP2; none: each process has the whole model",
    )
    dtype: Literal["auto", "f32", "bf16", "bf16-widened"] = Field(
        default="auto",
        description="the number format of the weights; auto: the fastest on this machine",
    )
    rope_scaling: Literal["linear", "yarn", "llama3"] | None = Field(
        default=None,
        description="scale the rotary positions of a model that is trained in place, so that it"
        " reads rows of cutoff_len tokens, more than it can without; none: as its config says",
    )
    gradient_checkpointing: bool | None = chosen(
        description="recompute activations to save memory",
    )
    activation_offloading: bool = Field(
        default=False,
        description="keep what activations are recomputed from in the memory of the host, on CUDA",
    )
    enable_liger_kernel: bool = Field(
        default=False,
        description="compute norms and gated layers with Liger's kernels, on CUDA",
    )
    flash_attn: Literal["auto", "sdpa", "disabled"] = Field(
        default="auto",
        description="the attention kernel; sdpa: torch's fused one, which is FlashAttention 2 on"
        " CUDA; disabled: products of whole matrices; auto: as the model's config says",
    )
    stream_layers: bool = Field(
        default=False,
        description="leave the base in its files and read each layer when it is computed: for a"
        " base larger than memory, on a CPU",
    )
    packing: bool | None = chosen(
        description="compute rows of different lengths one after the other, without padding; each"
        " row still sees only itself; rows with a common prompt are computed together instead,"
        " if the model can",
    )
    retention: bool = Field(
        default=True,
        description="measure what the model still answers after training: 60 general questions and"
        " plain text, before and after, if it has 10 M parameters and answers at least ten of them"
        " right; false: do not",
    )
    early_stopping_steps: Whole | None = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="end the run after this many evaluations in a row without a better one; 0: at"
        " the last step",
    )
    eval_steps: Whole | None = chosen(
        ge=1,
        description="steps between two evaluations of the held-out rows",
    )
    save_steps: Whole | None = chosen(
        ge=1,
        description="steps between two checkpoints",
    )
    save_only_model: bool = Field(
        default=False,
        description="checkpoints contain only the model, without optimizer state: they are smaller,"
        " but a run cannot be resumed from them, only finished",
    )
    save_total_limit: Whole = Field(
        default=2,
        ge=1,
        le=10_000,
        description="the number of newest checkpoints that are kept; the weights of the best step"
        " are kept besides",
    )
    output_dir: Annotated[str, BeforeValidator(path_text)] | None = Field(
        default=None,
        min_length=1,
        description="a folder for a copy of the trained model; none: only the run folder",
    )
    overwrite_output_dir: bool = Field(
        default=False,
        description="replace files with the same names in output_dir; other files stay",
    )
    report_to: Annotated[
        Literal["none", "tensorboard", "wandb", "tensorboard,wandb"], BeforeValidator(sorted_names)
    ] = Field(
        default="none",
        description="write the figures for TensorBoard or W&B, or for both, into the run folder;"
        " nothing is sent",
    )
    offline: bool = Field(
        default=False,
        description="never use the network",
    )
