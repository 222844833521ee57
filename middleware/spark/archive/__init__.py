"""A whole hierarchy over a recording, as Spark jobs: one stage a level, the same events as the live ones."""

from middleware.spark.archive.archive import Archive, archive
from middleware.spark.archive.archive_reading import stored_frames, trace_frames

__all__ = ["Archive", "archive", "stored_frames", "trace_frames"]
