"""What a load sends: to which topic, which sources may go on, and the offsets that came of it."""
