"""BERT (Devlin et al., 2018) as small Unix filters over zstd-compressed JSON Lines."""

__version__ = "0.1.0"
