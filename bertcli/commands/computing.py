"""The options of where and how numbers are computed, shared by all that run a network."""

from __future__ import annotations

import functools
from typing import Any

import click

from bertcli.commands.options import F, Integer, applied


def compute(function: F) -> F:
    """Adds the options of where and how numbers are computed; the command gets them as `device`."""

    @functools.wraps(function)
    def with_device(*args: Any, **kwargs: Any) -> Any:
        from bertcli.engine.device import choose

        names = ("device", "precision", "max_tokens", "kernels", "compiles")
        return function(*args, device=choose(**{name: kwargs.pop(name) for name in names}), **kwargs)

    decorators = [
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="auto (a GPU, else the CPU), cpu, cuda, cuda:1 …",
        ),
        click.option(
            "--precision",
            type=click.Choice(["auto", "fp32", "bf16"]),
            default="auto",
            show_default=True,
            help="auto: bf16 on a GPU that has it, else fp32.",
        ),
        click.option(
            "--max-tokens",
            type=Integer(1),
            help="Tokens per forward pass, or of all that share the cores of a CPU: memory and speed; the result stays "
            "the same up to rounding, and in training up to what dropout draws.  [default: on a CPU 4096, on a GPU "
            "32768 or 65536; in training no more than fits]",
        ),
        click.option(
            "--kernels",
            type=click.Choice(["auto", "off"]),
            default="auto",
            show_default=True,
            help="auto: on a GPU in bf16, Triton's kernels compute what lies between a layer's products.",
        ),
        click.option(
            "--compile",
            "compiles",
            type=click.Choice(["auto", "on", "off"]),
            default="auto",
            show_default=True,
            help="torch.compile for all that no kernel computes; auto: in pre-training on a GPU in bf16.",
        ),
    ]
    return applied(*decorators)(with_device)  # type: ignore[return-value]
