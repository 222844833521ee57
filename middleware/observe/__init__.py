"""What is true of a running mesh, and of what it found: asked, scraped, looked at, explained."""
