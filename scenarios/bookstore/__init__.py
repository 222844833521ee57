"""A bookshop whose RFID readers see shoplifting."""
