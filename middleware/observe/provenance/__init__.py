"""Why a result came: what it rests on, down to the raw events, and the history of its corrections. Pure."""
