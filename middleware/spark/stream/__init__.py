"""The same units inside Structured Streaming: keys hashed to shards, each shard a hierarchy with its state in Spark's store."""

from middleware.spark.stream.stream import stream, typed

__all__ = ["stream", "typed"]
