"""Two runs or more over the same traces: pairing, differences, changes, gates."""
