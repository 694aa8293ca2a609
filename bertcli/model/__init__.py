"""The network in reading order: config, packed, attention, bert, heads. It knows no file, device or rank."""
