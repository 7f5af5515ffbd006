"""The parts of a graph, under the path that Ray has for them. See `miniray.dag`."""

from miniray.dag import DAGNode as DAGNode
