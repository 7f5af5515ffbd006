"""Why a task, actor, placement group or object does not go on, and whether it ever can.

explanation      the two questions: explain and find_deadlock
links            one step of an answer: what a task, actor or object waits for
resource_links   the same for everything that waits for resources
circles          which records wait for each other in a circle
sentence         from the steps to a sentence
"""
