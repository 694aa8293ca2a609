"""The tasks, one file each in the same order: encode, head, loss, decode. `task.py` is the protocol."""
