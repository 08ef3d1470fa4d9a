"""Files and the values in them."""
