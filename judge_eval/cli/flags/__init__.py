"""What flags mean, and what becomes of them."""
