"""Event types from schemas that others wrote, and schemas of event types."""
