"""Graphs with several results, under the path that Ray has for them. See `miniray.dag`."""

from miniray.dag import MultiOutputNode as MultiOutputNode
