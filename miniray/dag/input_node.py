"""The input of a graph, under the path that Ray has for them. See `miniray.dag`."""

from miniray.dag import DAGInputData as DAGInputData, InputAttributeNode as InputAttributeNode, InputNode as InputNode
