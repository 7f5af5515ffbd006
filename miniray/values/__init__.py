"""How values, functions and classes are copied between the driver, tasks and actors. Nothing here starts a thread."""
