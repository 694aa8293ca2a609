"""A folder that `sentence-transformers` opens: the vector of a text is the mean of its tokens', as of `embed`.

Written as its versions since 2 read it.
"""

from __future__ import annotations

from pathlib import Path

from bertcli import folder
from bertcli.model.heads import Network
from bertcli.weights import safetensors

POOLING = "1_Pooling"
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": POOLING, "type": "sentence_transformers.models.Pooling"},
]


def save(path: Path, network: Network, max_length: int) -> None:
    """Write a network's weights, and what makes vectors of texts of so many tokens, into a folder. Raises `OSError`."""
    safetensors.save(path, network)
    (path / POOLING).mkdir()
    width = {"word_embedding_dimension": network.config.hidden_size}
    folder.write_json(path / POOLING / "config.json", {**width, "pooling_mode_mean_tokens": True})
    folder.write_json(path / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    folder.write_json(path / "modules.json", MODULES)
