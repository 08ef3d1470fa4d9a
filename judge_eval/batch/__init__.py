"""Judging by files: requests out, replies in, at the half price of a batch or on a server of one's own."""
