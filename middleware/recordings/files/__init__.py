"""Files of recordings: cut into pieces, read, and normalised by a mapping."""
