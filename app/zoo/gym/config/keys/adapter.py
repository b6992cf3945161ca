"""What is trained: an adapter or all weights."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from zoo.gym.config.settings import Settings
from zoo.gym.config.tuning import IN_PLACE
from zoo.gym.config.values import Number, Whole, path_text


class AdapterKeys(Settings, frozen=True):
    """What is trained: an adapter or all weights."""

    finetuning_type: Literal["lora", "dora", "oft", "freeze", "full"] = Field(
        default="lora",
        description="lora trains a small adapter, dora one with magnitudes (as use_dora), oft"
        " rotations of the layers' inputs, freeze some layers in place, full all weights; qlora is"
        " lora with quantization_bit 4",
    )
    adapter_name_or_path: Annotated[str, BeforeValidator(path_text)] | None = Field(
        default=None,
        min_length=1,
        description="LoRA adapter to train further, a folder or, on the command line, a run; its"
        " own rank and layers are kept, and it is the reference of methods that have one",
    )
    create_new_adapter: bool = Field(
        default=False,
        description="train a new adapter, as without adapter_name_or_path; refused beside it: a"
        " base with that adapter merged must be made first",
    )
    lora_rank: Whole = Field(
        default=16,
        ge=1,
        le=4096,
        description="the rank of the adapter",
    )
    lora_alpha: Number | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="the adapter's scale is lora_alpha / lora_rank; none: 2 x lora_rank",
    )
    lora_dropout: Number = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of the adapter's input that is dropped in training",
    )
    lora_target: str = Field(
        default="all",
        min_length=1,
        description="layers with an adapter: all, or names separated by commas",
    )
    lora_fixed_a: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="seed of the adapter's factors A, which are then not trained: B alone learns."
        " `round=ROUND` sets it, with the base, rank and layers of a private round",
    )
    base_identity: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="identity that the weights of the layers in lora_target must have in the base;"
        " `round=ROUND` sets it, so that nobody trains on another base than the round's",
    )
    delta_bits: Literal[1, 2, 4, 8] | None = Field(
        default=None,
        description="train the adapter with its factors in 1, 2, 4 or 8 bits a value, as a delta"
        " stores them (straight-through): the result is what `delta create` then keeps exactly;"
        " none: it is coded after the training",
    )
    use_rslora: bool = Field(
        default=False,
        description="scale the adapter by lora_alpha / sqrt(lora_rank)",
    )
    use_dora: bool | None = Field(
        default=None,
        description="train the magnitude of each output of a layer apart from its direction;"
        " none: with finetuning_type dora",
    )

    pissa_init: bool = Field(
        default=False,
        description="start from the largest singular values of each layer (PiSSA), which are taken"
        " out of the base; the result is an adapter of twice the rank for the unchanged base",
    )
    pissa_iter: Whole = Field(
        default=16,
        ge=-1,
        le=1000,
        description="iterations that find the singular values; -1 computes them exactly",
    )
    loftq_init: bool = Field(
        default=False,
        description="start as what quantising the base to 4 bits lost (LoftQ); the result is for"
        " the quantised base, which it names",
    )
    oft_rank: Whole = Field(
        default=0,
        ge=0,
        le=65_536,
        description="the number of blocks that oft rotates in each layer, in place of their size",
    )
    oft_block_size: Whole = Field(
        default=32,
        ge=0,
        le=65_536,
        description="how many inputs of a layer oft rotates together, or 0 with oft_rank",
    )
    oft_target: str = Field(
        default="all",
        min_length=1,
        description="layers that oft rotates: all, or names separated by commas",
    )
    module_dropout: Number = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of oft's blocks that do not rotate in a training step",
    )
    additional_target: str | None = Field(
        default=None,
        min_length=1,
        description="modules that are trained whole beside the adapter, separated by commas, such"
        " as embed_tokens,lm_head",
    )
    freeze_trainable_layers: Whole = Field(
        default=2,
        ge=-10_000,
        le=10_000,
        description="layers that freeze trains: the last ones, or the first ones if it is negative",
    )
    freeze_trainable_modules: str = Field(
        default="all",
        min_length=1,
        description="modules of these layers that freeze trains: all, or names separated by commas",
    )
    freeze_extra_modules: str | None = Field(
        default=None,
        min_length=1,
        description="modules outside of layers that freeze trains, separated by commas, such as"
        " embed_tokens",
    )

    @property
    def keeps_base(self) -> bool:
        """Whether the base can stay in its files: no weight of it changes."""
        return self.trains_adapter

    @property
    def trains_adapter(self) -> bool:
        """Whether an adapter is trained, not weights of the base."""
        return self.finetuning_type not in IN_PLACE

    @property
    def dora(self) -> bool:
        """Whether the adapter has magnitudes."""
        return bool(self.use_dora) or self.finetuning_type == "dora"
