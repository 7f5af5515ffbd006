"""Calls of functions in a graph, under the path that Ray has for them. See `miniray.dag`."""

from miniray.dag import FunctionNode as FunctionNode
