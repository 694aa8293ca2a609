"""The official scores, one file a task. Never torch."""
