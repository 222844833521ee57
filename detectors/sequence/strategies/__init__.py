"""The search for matches by selection strategy, in Python for study and in the native core."""
