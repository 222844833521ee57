"""The units inside Structured Streaming: keys hashed to shards, in stages, each shard with its state in Spark's store."""

from middleware.spark.stream.stream import explain, stream, typed

__all__ = ["explain", "stream", "typed"]
