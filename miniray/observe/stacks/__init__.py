"""What the program is doing at this moment: the stacks of its tasks, actor methods, coroutines, threads and driver.

`frames` tells the program's frames from the others, `coroutines` follows what a coroutine awaits, `reading` finds out
whose each stack is, and `report` writes the text of `miniray stack`.
"""
