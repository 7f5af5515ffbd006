"""From a decorated call to a task's specification."""
