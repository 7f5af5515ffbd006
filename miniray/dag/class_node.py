"""Actors and their calls in a graph, under the path that Ray has for them. See `miniray.dag`."""

from miniray.dag import ClassMethodNode as ClassMethodNode, ClassNode as ClassNode
