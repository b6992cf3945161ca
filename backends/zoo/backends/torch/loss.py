"""The module whose forward is the loss, for distributed wrappers.

Legend: B rows, T positions, N scored tokens, D hidden size.

Only this forward uses parameters in training. It computes statistics, objective and all gradients
above the backbone, so the `[B, T, V]` logits never exist; autograd then propagates the hidden
states' gradient through the backbone.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.base import Batch, Objective, Stat
from zoo.backends.torch.abilities import Abilities
from zoo.backends.torch.layers.router import RouterLoss, hidden_and_router_loss
from zoo.backends.torch.namespace import TorchNamespace
from zoo.backends.torch.numbers.widened import WidenedLinear, widened_product
from zoo.backends.torch.packing.groups import Packed
from zoo.backends.torch.packing.lines import Line
from zoo.backends.torch.probe import find_backbone
from zoo.backends.torch.vocabulary import statistics
from zoo.backends.torch.vocabulary.head import Head, find_head
from zoo.backends.torch.vocabulary.statistics import Scored, Stats
from zoo.core.errors import InputError

STATES = ("past_key_values", "cache_params")
"""Names of the state that models keep between tokens; not RWKV's `state`, which mixes rows."""


@dataclass(frozen=True)
class DeviceBatch:
    """A `Batch` on the device, with the arrays for the objective.

    `packed` is set if the rows are computed with shared prompts, or without padding.
    """

    ids_BT: Tensor
    mask_BT: Tensor
    arrays: Mapping[str, Any]
    temperature: float = 1.0
    packed: Packed | Line | None = None

    def gather(self, hidden_BTD: Tensor) -> Tensor:
        """Returns `[N, D]`: the hidden state before each learned token."""
        return hidden_BTD[:, :-1][self.mask_BT[:, 1:]]

    def targets_N(self) -> Tensor:
        """Returns the ids of the learned tokens."""
        return self.ids_BT[:, 1:][self.mask_BT[:, 1:]]

    def share(self) -> Tensor:
        """Returns this batch's share of the window's learned tokens."""
        tokens = self.mask_BT.sum()
        return tokens / max(float(self.arrays.get("window_tokens", tokens)), 1.0)

    def scatter(self, values_N: Tensor) -> Tensor:
        """Returns `[B, T]` with each learned token's value, and zero elsewhere."""
        out = torch.zeros(self.mask_BT.shape, dtype=values_N.dtype, device=values_N.device)
        return out.masked_scatter(self.mask_BT, values_N)


def to_device(
    batch: Batch, device: torch.device, packed: Packed | Line | None = None
) -> DeviceBatch:
    """Moves a batch; floating extras become float32."""

    def move(array: Any) -> Tensor:  # noqa: ANN401
        tensor = torch.from_numpy(array)
        return (tensor.float() if tensor.is_floating_point() else tensor).to(device)

    mask_BT = move(batch.loss_mask_BT)
    if bool(mask_BT[:, :1].any()):
        raise ValueError("loss_mask_BT: position 0 cannot be predicted: expected False, got True")
    arrays: dict[str, Any] = {name: move(value) for name, value in batch.extras.items()}
    arrays |= {"mask": mask_BT.float(), "lengths": move(batch.lengths_B), **batch.constants}
    return DeviceBatch(move(batch.ids_BT), mask_BT, arrays, batch.temperature, packed)


class LossModule(nn.Module):
    """A causal language model with an optional value head; the forward is the loss.

    With `packing`, rows of different lengths are computed without padding. With `offloads`, what
    the backbone saves for its backward pass is kept in the host's memory until then.
    """

    def __init__(
        self,
        model: nn.Module,
        value_head: nn.Module | None,
        *,
        autocast: bool,
        router: RouterLoss | None = None,
        packing: bool = False,
        offloads: bool = False,
    ) -> None:
        super().__init__()
        self.router, self.packing, self.offloads = router, packing, offloads
        self.model = model
        self.value_head = value_head
        self.autocast = autocast
        self.abilities = Abilities()

    def head(self) -> Head:
        """Returns the current language head, possibly with an adapter."""
        return find_head(self.model)

    def hidden(self, ids_BT: Tensor) -> Tensor:
        """Returns the backbone's last hidden states, `[B, T, D]`.

        Padding is on the right and attention is causal, so real tokens never attend to it: no
        attention mask is needed, which allows the faster kernel.
        """
        backbone = find_backbone(self.model)
        with self.mixed(ids_BT.device):
            hidden: Tensor = backbone(input_ids=ids_BT, use_cache=False).last_hidden_state
        return hidden

    def learned_hidden(self, batch: DeviceBatch) -> Tensor:
        """Returns the hidden state before each learned token, `[N, D]`."""
        packed = batch.packed
        if packed is None:
            return batch.gather(self.hidden(batch.ids_BT))
        backbone: Any = find_backbone(self.model)
        with self.mixed(batch.ids_BT.device):
            out = backbone(**packed.inputs(self), use_cache=False)
        return packed.gather(out.last_hidden_state)

    def as_given(self, mask_RLL: Tensor) -> Tensor:
        """Returns a mask in the form that the model's attention takes as it is."""
        config: Any = self.model.config
        if config._attn_implementation != "eager":
            return mask_RLL
        dtype = torch.bfloat16 if self.autocast else config.dtype or torch.float32
        hidden = torch.finfo(dtype).min
        return torch.where(mask_RLL, 0.0, hidden)

    @contextmanager
    def mixed(self, device: torch.device) -> Generator[None]:
        """The context of the backbone: bf16 products with float32 weights, and offloading."""
        with ExitStack() as contexts:
            if self.autocast:
                contexts.enter_context(torch.autocast(device.type, torch.bfloat16))
            if self.offloads and torch.is_grad_enabled():
                saved: Any = torch.autograd.graph.save_on_cpu
                contexts.enter_context(saved(pin_memory=device.type == "cuda"))
            yield

    def next_logits(self, ids_BP: Tensor, **inputs: Any) -> tuple[Tensor, dict[str, Any]]:  # noqa: ANN401
        """Returns the float32 logits after the last position, `[B, V]`, and the state.

        The state is passed with the next ids: a key-value cache, or the state of a state-space
        model, by its name in the model; empty if the model has none.

        The head multiplies in float32 and without autocast, as in scoring, so that sampling and
        scoring give the same log-probabilities.
        """
        backbone = find_backbone(self.model)
        if not self.autocast and not (self._rounds_logits() and _takes_state(backbone)):
            out = self.model(input_ids=ids_BP, use_cache=True, logits_to_keep=1, **inputs)
            return out.logits[:, -1].float(), _state(out)
        hidden_BPD, state = self.hidden_and_state(ids_BP, **inputs)
        return self.logits_of(hidden_BPD[:, -1]), state

    def hidden_and_state(self, ids_BP: Tensor, **inputs: Any) -> tuple[Tensor, dict[str, Any]]:  # noqa: ANN401
        """Returns the hidden states of all positions, `[B, P, D]`, and the state."""
        with self.mixed(ids_BP.device):
            out = find_backbone(self.model)(input_ids=ids_BP, use_cache=True, **inputs)
        return out.last_hidden_state, _state(out)

    def _rounds_logits(self) -> bool:
        """Returns whether the model's own head gives logits in 16 bits."""
        head = self.head()
        layer = getattr(head.module, "base_layer", head.module)
        return head.weight_VD.dtype is not torch.float32 and not isinstance(layer, WidenedLinear)

    def logits_of(self, hidden_BD: Tensor, added_BV: Tensor | None = None) -> Tensor:
        """Returns the float32 logits of hidden states as `next_logits` does, `[B, V]`.

        Args:
            hidden_BD: the hidden states.
            added_BV: what is added to the product with the output layer.
        """
        head = self.head()
        narrow = head.plain and head.weight_VD.dtype is not torch.float32
        if narrow and hidden_BD.device.type == "cpu":
            logits_BV = widened_product(hidden_BD.float(), head.weight_VD)
            return logits_BV if added_BV is None else logits_BV + added_BV
        return head.logits(hidden_BD, added_BV)

    def scored(
        self,
        batch: DeviceBatch,
        teacher: "Teacher | None" = None,
        hidden_ND: Tensor | None = None,
    ) -> Scored:
        """Returns the tokens to score with their hidden states, if not given the backbone's."""
        return Scored(
            hidden_ND=self.learned_hidden(batch) if hidden_ND is None else hidden_ND,
            targets_N=batch.targets_N(),
            head=self.head(),
            temperature=batch.temperature,
            value_head=self.value_head,
            teacher_hidden_ND=teacher.hidden_ND if teacher else None,
            teacher_head=teacher.head if teacher else None,
        )

    def forward(
        self, objective: Objective, batch: DeviceBatch, teacher: "Teacher | None" = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the loss, whose backward computes every gradient, and the metrics.

        The router loss is part of the first, and a metric; the metric `loss` is the objective's.
        """
        if self.router is None:
            loss, metrics = self._objective(objective, batch, self.scored(batch, teacher))
            return loss, {"loss": loss.detach(), **metrics}
        lengths_B = batch.arrays["lengths"]
        hidden_BTD, router = hidden_and_router_loss(self, batch.ids_BT, lengths_B)
        scored = self.scored(batch, teacher, batch.gather(hidden_BTD))
        loss, metrics = self._objective(objective, batch, scored)
        router = router * batch.share()
        metrics = {"loss": loss.detach(), **metrics, "router_loss": router.detach()}
        return loss + self.router.weight * router, metrics

    def _objective(
        self, objective: Objective, batch: DeviceBatch, scored: Scored
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the objective's loss and its metrics."""
        parameters: list[nn.Parameter] = []
        if objective.needs & statistics.FROM_VOCABULARY:
            parameters += scored.head.trained_parameters()
        if Stat.VALUES in objective.needs and self.value_head is not None:
            parameters += list(self.value_head.parameters())
        metrics: dict[str, Tensor] = {}
        spec = (objective, batch, scored, parameters, metrics)
        loss: Tensor = _GradientInForward.apply(spec, scored.hidden_ND, *parameters)  # type: ignore[no-untyped-call]
        return loss, metrics


def _takes_state(backbone: nn.Module) -> bool:
    return not signature(type(backbone).forward).parameters.keys().isdisjoint(STATES)


def _state(out: Any) -> dict[str, Any]:  # noqa: ANN401
    state = {name: getattr(out, name, None) for name in STATES}
    return {name: value for name, value in state.items() if value is not None}


@dataclass(frozen=True)
class Teacher:
    """Another policy's hidden states at the learned tokens, and its head."""

    hidden_ND: Tensor
    head: Head


def require_same_width(teacher: LossModule, policy: LossModule) -> None:
    """Checks that two models have logits for as many tokens.

    Raises:
        InputError: they have not.
    """
    got, expected = (module.head().weight_VD.shape[0] for module in (teacher, policy))
    if got != expected:
        raise InputError(
            f"teacher: expected logits of {expected:,} tokens, got {got:,}",
            code="backends.other_vocabulary",
        )


class _GradientInForward(torch.autograd.Function):
    """(hidden states, head parameters) -> loss; the forward also computes all gradients."""

    @staticmethod
    def forward(ctx: Any, spec: Any, hidden_ND: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        objective, batch, scored, trained, metrics = spec
        losses: list[Tensor] = []

        def cotangents(stats: Stats) -> dict[Stat, Tensor]:
            loss, figures, slopes = differentiate(objective, stats, batch.arrays, batch.scatter)
            losses.append(loss)
            metrics.update(figures)
            return slopes

        constant = _constant_slopes(objective, batch, scored)
        dhidden_ND, grads = statistics.gradients(
            scored, objective.needs, cotangents, trained, constant
        )
        ctx.save_for_backward(dhidden_ND, *grads)
        return losses[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        # in place: they are used only here, and a trained head's is as large as the head
        return (None, *[saved.mul_(grads[0].to(saved.dtype)) for saved in ctx.saved_tensors])


def _constant_slopes(
    objective: Objective, batch: DeviceBatch, scored: Scored
) -> dict[Stat, Tensor] | None:
    """Returns the derivative of a linear objective by each statistic; None of any other."""
    if not getattr(objective, "linear", False):
        return None
    zeros = torch.zeros_like(scored.targets_N, dtype=torch.float32)
    stats = dict.fromkeys(sorted(objective.needs), zeros)
    return differentiate(objective, stats, batch.arrays, batch.scatter)[2]


def differentiate(
    objective: Objective,
    stats: Stats,
    arrays: Mapping[str, Any],
    to_rows: Callable[[Tensor], Tensor] = lambda values: values,
) -> tuple[Tensor, dict[str, Tensor], dict[Stat, Tensor]]:
    """Returns the loss, its metrics, and its derivative by each statistic.

    Args:
        objective: the objective to differentiate.
        stats: the statistics, in any shape.
        arrays: the other inputs of the objective.
        to_rows: converts a statistic to the shape that the objective expects, `[B, T]`.

    Raises:
        ValueError: a metric has the name of the loss.
    """
    with torch.enable_grad():
        leaves = {stat: value.detach().requires_grad_() for stat, value in stats.items()}
        placed = {stat: to_rows(leaf) for stat, leaf in leaves.items()}
        loss, figures = objective(TorchNamespace(), placed, arrays)
        slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    if "loss" in figures:
        raise ValueError("metrics: expected any name but that of the loss, got 'loss'")
    metrics = {name: torch.as_tensor(value).detach() for name, value in figures.items()}
    return (
        loss.detach(),
        metrics,
        {
            stat: torch.zeros_like(leaf) if slope is None else slope
            for (stat, leaf), slope in zip(leaves.items(), slopes, strict=True)
        },
    )
