"""Blocks: the events of a type in their order of arrival, in whatever form they came."""
