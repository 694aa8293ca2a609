"""The masked language head: what a GPU's products ask for changes no loss."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, linear

from bertcli.model.heads import rounded


def test_pieces_that_fill_up_a_multiple_change_neither_loss_nor_gradients() -> None:
    torch.manual_seed(0)
    words, bias, vectors = torch.randn(30, 8), torch.randn(30), torch.randn(5, 8)
    inputs = [tensor.requires_grad_() for tensor in (words, bias, vectors)]
    found = []
    for multiple in (1, 64):
        logits = linear(vectors, *rounded(words, bias, multiple))
        assert logits.shape == (5, 30 if multiple == 1 else 64)
        loss = cross_entropy(logits, torch.tensor([0, 29, 3, 3, 7]), reduction="sum")
        found.append([loss, *torch.autograd.grad(loss, inputs)])
    for plain, filled in zip(*found, strict=True):
        assert bool(filled.isfinite().all())
        torch.testing.assert_close(filled, plain)
