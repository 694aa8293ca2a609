"""One file a foreign data format, reading and writing side by side."""
