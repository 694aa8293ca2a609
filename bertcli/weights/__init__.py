"""Tensors in and out of model folders."""
