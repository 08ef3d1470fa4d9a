"""Backends for decision models, which answer questions with probabilities."""
