"""Commands that run queries of the languages: ``sql`` and its shell, and ``query``."""
