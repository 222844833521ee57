"""The functions that need Spark: sessions, recordings and archives, and the data source ``slackline``."""

from middleware.spark.archive import archive
from middleware.spark.prepare.prepare import prepare
from middleware.spark.session import spark_session
from middleware.spark.source import register

__all__ = ["archive", "prepare", "register", "spark_session"]
