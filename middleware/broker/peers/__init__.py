"""Who is attached to a broker, what each may do, and what it wants."""
