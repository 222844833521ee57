"""Optimistic flows (Kuralenok et al. 2018): dataflow graphs with cycles, made exact by one barrier at the end."""

from detectors.flow.flow import Cycle, Flow, Stream
from detectors.flow.graphs.flow_graph import FlowError

__all__ = ["Cycle", "Flow", "FlowError", "Stream"]
