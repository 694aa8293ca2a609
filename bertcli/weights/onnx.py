"""A network as an ONNX file, with the inputs and outputs of transformers' model of its class, as Optimum names them.

Shapes: B sequences of L tokens, padding among them, as a rectangle, for that is the form that other programs feed; C
choices, K classes, V pieces, H width.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertcli import publish
from bertcli.errors import UsageError
from bertcli.model.bert import Layer
from bertcli.model.heads import FeatureNetwork, Network
from bertcli.model.packed import Packed

FILE = "model.onnx"
OPSET = 20  # the first with GELU as one operation, which halves its cost
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
MOST = 1_800_000_000  # bytes of weights: a file of ONNX, which is one protocol buffer, has no more than 2 GiB


@dataclass(frozen=True)
class Rectangle(Packed):
    """A rectangle of B·L tokens in the place of packed ones, padding at the right counted as tokens that none sees."""

    mask: Tensor  # (B, L) 1 at tokens, 0 at padding

    @property
    def starts(self) -> Tensor:
        """Returns the index of each sequence's first token: (B,)."""
        rows, columns = self.mask.shape
        return torch.arange(rows) * columns

    @property
    def ends(self) -> Tensor:
        """Returns the index of each sequence's last token: (B,)."""
        return self.starts + self.mask.sum(1) - 1


def attend(query: Tensor, key: Tensor, value: Tensor, packed: Rectangle, dropout: float, causal: bool) -> Tensor:
    """Returns what the model's `attend` does, within the rows of a rectangle: (B·L, heads, width)."""
    rows, columns = packed.mask.shape
    q, k, v = (x.view(rows, columns, *x.shape[1:]).transpose(1, 2) for x in (query, key, value))
    seen = packed.mask[:, None, None].bool()  # (B, 1, 1, L)
    if causal:
        seen = seen & torch.ones(columns, columns, dtype=torch.bool).tril()
    # Not minus infinity: a row of padding alone has weights, which mean nothing, instead of no numbers.
    hidden = torch.where(seen, 0.0, torch.finfo(q.dtype).min)
    weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + hidden).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(0, 1)


# -- what a class gives ---------------------------------------------------------------------------------------------


def _vectors(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    hidden = network.hidden(rectangle)
    # Of a left-to-right model transformers pools [CLS], which has seen itself alone; we do not.
    is_pooled = network.bert.pooler is not None and not network.bert.is_causal
    pooled = [network.bert.pool(hidden, rectangle)] if is_pooled else []
    return hidden.view(*rectangle.mask.shape, -1), *pooled


def _texts(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    return (network.heads["classifier"](network.pooled(rectangle)),)


def _tokens(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    return (network.heads["classifier"](network.hidden(rectangle)).view(*rectangle.mask.shape, -1),)


def _span(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    scores = network.heads["span"](network.hidden(rectangle)).view(*rectangle.mask.shape, 2)
    return scores[..., 0], scores[..., 1]


def _pieces(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    scores = network.heads["mlm"](network.hidden(rectangle), network.bert.embeddings.word.weight)
    return (scores.view(*rectangle.mask.shape, -1),)


def _pretraining(network: Network, rectangle: Rectangle) -> tuple[Tensor, ...]:
    hidden = network.hidden(rectangle)
    scores = network.heads["mlm"](hidden, network.bert.embeddings.word.weight)
    return scores.view(*rectangle.mask.shape, -1), network.heads["nsp"](network.bert.pool(hidden, rectangle))


CHOICE = "BertForMultipleChoice"
Outputs = Callable[[Network, Rectangle], tuple[Tensor, ...]]
CLASSES: dict[str, tuple[Outputs, tuple[str, ...]]] = {
    "BertModel": (_vectors, ("last_hidden_state", "pooler_output")),  # (B, L, H), (B, H)
    "BertForPreTraining": (_pretraining, ("prediction_logits", "seq_relationship_logits")),  # (B, L, V), (B, 2)
    "BertForMaskedLM": (_pieces, ("logits",)),  # (B, L, V)
    "BertLMHeadModel": (_pieces, ("logits",)),  # (B, L, V)
    "BertForSequenceClassification": (_texts, ("logits",)),  # (B, K)
    "BertForTokenClassification": (_tokens, ("logits",)),  # (B, L, K)
    "BertForQuestionAnswering": (_span, ("start_logits", "end_logits")),  # (B, L) each
    CHOICE: (_texts, ("logits",)),  # (B, C) of inputs (B, C, L)
}


class _OnRectangles(nn.Module):
    """A network as a function of the inputs of transformers' class `kind`."""

    def __init__(self, network: Network, kind: str) -> None:
        super().__init__()
        self.network, self.kind = network, kind

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        shape, columns = input_ids.shape, input_ids.shape[-1]
        mask = attention_mask.view(-1, columns)
        rectangle = Rectangle(
            ids=input_ids.flatten(),
            segments=token_type_ids.flatten(),
            positions=torch.arange(columns).expand(mask.shape).flatten(),
            boundaries=mask.new_zeros(0),  # neither these nor the next two are asked for
            lengths=(),
            longest=0,
            mask=mask,
        )
        made = CLASSES[self.kind][0](self.network, rectangle)
        return tuple(each.view(shape[:-1]) for each in made) if self.kind == CHOICE else made


# -- the file -------------------------------------------------------------------------------------------------------


def save(path: Path, network: Network, kind: str | None, *, in_eight_bits: bool = False) -> None:
    """Write a network into a folder, see `save_onnx`, and if asked `quantize`. Raises as they do."""
    save_onnx(path / FILE, network.eval(), kind)
    if in_eight_bits:
        quantize(path / FILE)


def save_onnx(file: Path, network: Network, kind: str | None) -> None:
    """Write a network, in fp32 and set to answer, as an ONNX file that gives what transformers' class `kind` gives.

    None is `BertModel`. Inputs are int64, (B, L), of choices (B, C, L), all sizes free. Raises `UsageError` where there
    is no such network in ONNX, or the exporter is not installed, and `OSError`.
    """
    kind = kind or "BertModel"
    _check(network, kind)
    axes = ("batch", "choices", "sequence") if kind == CHOICE else ("batch", "sequence")
    example = torch.ones(*range(2, 2 + len(axes)), dtype=torch.long)  # of sizes that are not 1, which torch would keep
    free = {place: torch.export.Dim(axis) for place, axis in enumerate(axes)}
    with _on_rectangles(network), _silent(), torch.no_grad():
        program: Any = torch.onnx.export(
            _OnRectangles(network, kind),
            tuple(map(torch.clone, [example] * len(INPUTS))),  # of one tensor torch would make one input
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=INPUTS,
            output_names=CLASSES[kind][1],
            dynamic_shapes=dict.fromkeys(INPUTS, free),
        )
        for node in program.model.graph:
            node.metadata_props.clear()  # lines of code by which it was made, with paths
        with publish.replacing(file) as draft:
            try:
                program.save(draft, external_data=False)
            except AssertionError as error:  # its word for a full disk
                raise OSError(f"{file.name}: could not be written") from error


def quantize(file: Path) -> None:
    """Turn a file of `save_onnx` into one whose products are of 8 bits, for CPUs; embeddings, which lose more, stay.

    Each row of a weight has a scale of its own. The vectors that enter a product have one together, found as it runs:
    what is computed of a text thus depends a little on what is computed with it. Raises `UsageError` where onnxruntime
    is not installed, and `OSError`.
    """
    _check_installed("onnx", "onnxruntime")
    with _silent():
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        model = onnx.load(file)
        del model.graph.value_info[:]  # exporters tell of the weights' shapes too, and the quantizer transposes them
        with publish.replacing(file) as draft:
            # 7 bits: without VNNI a CPU adds two products of 8 in 16, and what is more than that is lost.
            options = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8}
            quantize_dynamic(model, draft, op_types_to_quantize=["Gemm", "MatMul"], **options)


def _check(network: Network, kind: str) -> None:
    """Raise `UsageError` where a network, or an installation, is not made for ONNX."""
    if isinstance(network, FeatureNetwork) or network.bilstm is not None:
        raise UsageError("ONNX: a network with a BiLSTM has no form there that other programs know")
    if kind not in CLASSES:
        raise UsageError(f"ONNX: found {kind}, expected {', '.join(CLASSES)}")
    if 4 * sum(map(torch.numel, network.parameters())) > MOST:
        raise UsageError("ONNX: a network of more than 1.8 GB has no room in one file")
    _check_installed("onnx", "onnxscript")


def _check_installed(*packages: str) -> None:
    for name in packages:
        if find_spec(name) is None:
            raise UsageError(f"ONNX needs the package {name}: pip install 'bertcli[onnx]'")


@contextlib.contextmanager
def _on_rectangles(network: Network) -> Iterator[None]:
    """Lets a network's layers attend within rectangles, for a while."""
    layers: list[Any] = [part for part in network.modules() if isinstance(part, Layer)]
    for layer in layers:
        layer.attend = attend
    try:
        yield
    finally:
        for layer in layers:
            del layer.attend


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keeps to itself what the exporter tells of its steps."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
