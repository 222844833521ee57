"""``format("slackline")``: Spark reads the log of a node, as a batch or a stream, and publishes into nodes."""

from middleware.spark.source.data_source import register

__all__ = ["register"]
