"""A stream as its reader, or its publisher, sees it. Pure."""
