"""Driving a run: from what a user has to a finished folder."""
