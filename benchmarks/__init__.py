"""Speed and memory, each beside its bound or its peers."""
