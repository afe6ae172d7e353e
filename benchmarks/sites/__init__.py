"""What runs inside the measured processes: the app's side, and the peer's in its environment."""
