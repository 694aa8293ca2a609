"""Where and how the numbers are computed: applied from outside, so that the model stays plain."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch

from bertcli.engine.distributed import ALONE, Ranks
from bertcli.engine.recompute import recompute
from bertcli.errors import UsageError
from bertcli.model.attention import has_packed_kernel
from bertcli.model.bert import Embeddings, Layer
from bertcli.model.heads import FeatureNetwork, MaskedLanguageHead, Network

# Tokens of one forward pass where `--max-tokens` is not given: they fill the device without filling its memory.
TOKENS = {"cuda": 32_768, "cpu": 4_096}
LARGE = 64 << 30, 65_536  # from so many bytes of memory on, with kernels, so many tokens
# Bytes that training keeps of a token for each unit of a layer's width, as measured; of its share of hidden tokens'
# scores for each piece, or of its own scores where every token is predicted; and of a parameter with its gradient and
# moments. What is computed twice keeps the inputs of layers alone. A BiLSTM's are those of each unit of a direction, in
# fp32, with what its backward pass takes.
KEPT, KEPT_PLAIN, KEPT_FP32, KEPT_INPUT, KEPT_BILSTM, SCORES, SCORES_EACH, STATE = 34, 60, 120, 4, 180, 1.7, 12, 16
USABLE = 0.8  # of a GPU's memory
# Tokens of a pass times width up to which it is recorded: issuing its kernels takes an H200's host longer than running
# them, by more than the filling up of batches, and the adding up of gradients, cost.
RECORDED = 1 << 25
WORKERS = 8  # processes that keep a GPU busy, with some to spare; a CPU's cores are busy with the network itself


@dataclass(frozen=True)
class Device:
    """A device, the precision of its products, and what is done to be fast."""

    device: torch.device
    precision: str  # fp32 or bf16
    max_tokens: int
    is_sized: bool = False  # whether they were asked for
    kernels: bool = False  # whether layers compute by the kernels of `model/kernels/`
    compiles: str = "off"  # on, off, or auto: in runs that are long enough to win the time back
    workers: int = 1  # processes that get batches ready, and in use also write what became of them
    ranks: Ranks = ALONE  # while training: the processes that share the work, each on a device of its own
    graphs: bool = True  # while training: CUDA graphs of passes, where that can be
    recomputes: bool = False  # while training: layers anew in the backward pass, instead of keeping their activations
    is_deterministic: bool = False  # while training: sums on a GPU in a fixed order, so that a run repeats bit for bit

    def autocast(self) -> AbstractContextManager[object]:
        """Returns the context in which the network runs forward."""
        if self.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def place(self, network: Network, *, learns: bool = False, is_long: bool = False) -> Network:
        """Moves a network to the device and makes it as fast, or as frugal, as is asked for; returns it.

        `is_long` says that it will take many steps of many shapes.
        """
        network.to(self.device)
        if self.device.type == "cuda":
            torch.set_num_threads(1)  # what little is left to the host takes less time than waking all its cores
        if learns and self.is_deterministic:
            _fix_order()
        if self.kernels:
            from bertcli.model.fused import fuse

            fuse(network)
        if learns and self.recomputes:
            recompute(network)
        if self.is_compiled(is_long=is_long):
            if learns:
                torch.compiler.reset()  # an earlier run's code would count as ours
            # Else it chooses between kernels by how long they take, which is never the same twice.
            torch._inductor.config.deterministic = self.is_deterministic
            compile_parts(network, embeddings=not self.is_deterministic, layers=not self.kernels)
        return network

    def fitted(self, network: Network, most: int) -> Device:
        """Returns the same device as it suits a network that learns by steps of usually at most so many tokens.

        Passes have room in its memory, which is an estimate (`--max-tokens` has the last word), and only small ones are
        recorded.
        """
        if self.device.type != "cuda" or isinstance(network, FeatureNetwork):  # of a few words a step
            return self
        tokens = self.max_tokens if self.is_sized else min(self.max_tokens, self._room(network))
        is_small = min(tokens, most) * network.config.hidden_size <= RECORDED
        return replace(self, max_tokens=tokens, graphs=self.graphs and is_small)

    def _room(self, network: Network) -> int:
        """Returns the tokens of a pass for which there is memory, at least one."""
        memory = USABLE * torch.cuda.get_device_properties(self.device).total_memory
        memory -= STATE * sum(map(torch.numel, network.parameters()))
        return max(1, int(memory / self._kept(network)))

    def _kept(self, network: Network) -> int:
        """Returns the bytes that training keeps of a token."""
        config = network.config
        each = KEPT if self.kernels else KEPT_PLAIN if self.precision == "bf16" else KEPT_FP32
        layers = config.num_hidden_layers
        width = each + KEPT_INPUT * layers if self.recomputes else each * layers
        scores = SCORES_EACH if config.is_decoder and "mlm" in network.heads else SCORES
        return width * config.hidden_size + KEPT_BILSTM * config.bilstm + int(scores * config.vocab_size)

    def is_compiled(self, *, is_long: bool) -> bool:
        """Returns whether a network is compiled here."""
        return self.compiles == "on" or (self.compiles == "auto" and is_long and self.precision == "bf16")

    def is_recorded(self, network: Network) -> bool:
        """Returns whether training records passes as CUDA graphs."""
        if network.bilstm is not None:  # cuDNN has the sizes of its steps on the host, where they vary
            return False
        width = network.config.hidden_size // network.config.num_attention_heads
        is_packed = self.precision == "bf16" and has_packed_kernel(self.device, torch.bfloat16, width)
        # What is computed twice takes the state of the random generator, which a recording cannot.
        return self.graphs and is_packed and not self.recomputes

    def switches(self, network: Network, *, is_long: bool) -> dict[str, object]:
        """Returns what is in force while a network learns, for notes."""
        is_gpu = self.device.type == "cuda"
        return {
            "device": torch.cuda.get_device_name(self.device) if is_gpu else self.device.type,
            "precision": self.precision,
            "max_tokens": self.max_tokens,
            "kernels": self.kernels,
            "compiled": self.is_compiled(is_long=is_long),
            "cuda_graphs": self.is_recorded(network),
            "gradient_checkpointing": self.recomputes,
            "deterministic": self.is_deterministic,
            "workers": self.workers,
            "ranks": self.ranks.size,
        }


def choose(
    device: str = "auto",
    precision: str = "auto",
    max_tokens: int | None = None,
    kernels: str = "auto",
    compiles: str = "auto",
) -> Device:
    """Returns the device asked for: auto is a GPU where there is one, and bf16 where it has that.

    Of several GPUs each process that `torchrun` has started gets its own, unless one is asked for by its number. fp32
    means fp32: TF32 stays off. Has a GPU's memory taken in one piece that grows, unless the environment says otherwise.
    Raises `UsageError` where the device is not there.
    """
    # Batches vary in size: in segments of fixed sizes they took three times the memory that they filled.
    if not {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"} & os.environ.keys():
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    try:
        chosen = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        if chosen.type == "cuda" and torch.cuda.is_available():
            number = chosen.index if chosen.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
            chosen = torch.device("cuda", number)
            torch.cuda.set_device(chosen)
        torch.ones(1, device=chosen).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"--device {device}: {str(error).splitlines()[0]}") from None
    is_gpu = chosen.type == "cuda"
    if precision == "auto":
        precision = "bf16" if is_gpu and torch.cuda.is_bf16_supported(False) else "fp32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    has_kernels = is_gpu and precision == "bf16" and find_spec("triton") is not None
    has_kernels = has_kernels and kernels == "auto" and torch.cuda.get_device_capability(chosen) >= (8, 0)
    is_sized = max_tokens is not None
    if max_tokens is None:
        bytes_of_it = torch.cuda.get_device_properties(chosen).total_memory if has_kernels else 0
        max_tokens = LARGE[1] if bytes_of_it >= LARGE[0] else TOKENS.get(chosen.type, TOKENS["cpu"])
    if compiles == "auto" and not is_gpu:
        compiles = "off"
    gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return Device(
        chosen,
        precision,
        max_tokens,
        is_sized=is_sized,
        kernels=has_kernels,
        compiles=compiles,
        workers=min(WORKERS * gpus, len(os.sched_getaffinity(0))) if is_gpu else 1,
    )


def _fix_order() -> None:
    """Let torch compute by what makes its sums in one order, whenever it runs."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it torch refuses to multiply
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a check: it takes time


def compile_parts(network: Network, *, embeddings: bool, layers: bool) -> None:
    """Let torch compile a network part by part, once for all sizes: heads, and if asked embeddings and layers.

    Compiled, the gradients of embeddings are added up as they come, or, where their order is to be fixed, one by one.
    One layer's code serves them all, so that compiling takes seconds; torch keeps it on disk for the next process.
    """
    network.is_compiled = True
    as_it_is = torch.compiler.disable(Layer.attend)  # type: ignore[no-untyped-call]
    kinds = (*([Embeddings] * embeddings), *([Layer] * layers))
    for part in [*network.heads.values(), *(part for part in network.modules() if isinstance(part, kinds))]:
        part.compile(dynamic=True)
        if isinstance(part, Layer):
            part.attend = as_it_is
        if isinstance(part, MaskedLanguageHead):
            part.loss = torch.compile(part.loss, dynamic=True)  # type: ignore[method-assign]
