"""Ranking metrics as values over ragged tables of grades."""
