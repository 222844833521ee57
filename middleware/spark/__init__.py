"""The room for Spark: the session, jobs that prepare, feed and archive recordings, the streaming engine, and the data
source."""
