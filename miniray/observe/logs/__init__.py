"""What tasks and actors print: captured, kept, folded and read."""
