"""Shapes of records, one file for each kind of tool: what a module here has as `SHAPES` can be read.

Another file in this folder is found without being named anywhere.
"""
