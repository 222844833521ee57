"""Commands for recordings: prepare, look inside, run, evaluate, archive."""
