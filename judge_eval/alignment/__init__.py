"""The judge beside people, and beside other judges."""
