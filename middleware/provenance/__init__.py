"""Why a result came: its causes, down to the raw events, and the history of its corrections. Pure."""
