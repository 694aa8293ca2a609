"""One thin file a command: options, then read, one call, write."""
