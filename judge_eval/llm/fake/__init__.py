"""The fake judge: it answers by rules, without a network."""
