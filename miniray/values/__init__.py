"""What travels: values, functions and classes on their way between driver, tasks and actors. No threads here."""
