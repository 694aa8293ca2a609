"""What happens to text before a model sees it: pieces, pairs, masks. Never torch; randomness handed in."""
