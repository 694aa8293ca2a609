"""Runs any task anywhere: the one training loop, the one prediction loop, and what they stand on."""
