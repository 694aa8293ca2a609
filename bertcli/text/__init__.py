"""What happens to text before any model sees it: cleaning, pieces, pairs, masks. Never torch; randomness handed in."""
